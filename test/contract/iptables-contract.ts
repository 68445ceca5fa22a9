import { afterEach, beforeEach, describe, expect, test } from '@jest/globals';
import { formatCidr, parseCidr } from '../../src/base/cidr.ts';
import { type IpAddress, type IpFamily, IP_FAMILIES } from '../../src/base/ip.ts';
import type { Kernel } from '../../src/kernel/kernel.ts';
import { MODE_PLANS } from '../../src/plan/mode-plans.ts';
import { planRules } from '../../src/plan/ipvs/plan-rules.ts';
import { type SetRole, plannedSet, setName } from '../../src/state/set-roles.ts';
import { addressTraits } from '../../src/state/address-traits.ts';
import { type IpSetEntry, formatIpSetEntry } from '../../src/state/ip-set.ts';
import type { Op } from '../../src/state/op.ts';
import { Transaction } from '../../src/state/transaction.ts';
import { type VirtualServer, virtualServerKey } from '../../src/state/virtual-server.ts';
import { address, endpoint, realServer, virtualServer as anyVirtualServer } from './objects.ts';
import { type PlaneBed, planIn, planeContract } from './plane-contract.ts';

/** A kernel of iptables mode, which reads the tables at each full check anew, and what another program can do to them. */
export interface IptablesBed extends PlaneBed {
  /** Returns iptables-save. */
  save(family: IpFamily): Promise<string>;
  restore(family: IpFamily, script: string): Promise<void>;
}

const CONFIG = planIn('iptables');

/** What the Kernel of iptables mode must do, with either variant of iptables and with tables in memory. */
export function iptablesContract(name: string, makeBed: () => Promise<IptablesBed>): void {
  planeContract('iptables', makeBed);

  describe(`the kernel of iptables mode, ${name}`, () => {
    let bed: IptablesBed;
    beforeEach(async () => {
      bed = await makeBed();
      await bed.kernel.prepare();
      for (const family of IP_FAMILIES) await bed.kernel.ensureRules(planRules(CONFIG, family));
    });
    afterEach(async () => {
      await bed[Symbol.asyncDispose]();
    });

    for (const family of IP_FAMILIES) {
      describe(`IPv${family}`, () => {
        ofFamily(family, () => bed);
      });
    }
  });
}

function ofFamily(family: IpFamily, bed: () => IptablesBed): void {
  const clean = { failures: [] };
  const apply = async (...ops: readonly Op[]) => await bed().kernel.apply(new Transaction(ops));
  const virtualServer = (at: IpAddress, port: number, options: Partial<VirtualServer> = {}): VirtualServer =>
    anyVirtualServer(at, port, 'TCP', {
      scheduler: 'random',
      servicePort: 'default/web:http',
      traits: addressTraits('cluster', true),
      ...options,
    });
  const idOf = ({ address: at, port, protocol }: VirtualServer) => ({ address: at, port, protocol });
  const clusterIp = virtualServer(address(family, 10), 80);
  const servers = [1, 2, 3, 4].map((n) => realServer(endpoint(family, n), 8080));
  const entryOf = (role: SetRole, entry: IpSetEntry, kind: 'add-entry' | 'delete-entry' = 'add-entry'): Op => ({
    kind,
    set: plannedSet(role, family, 0),
    entry,
  });
  const serve = (vs: VirtualServer, list = servers): Op[] => [
    { kind: 'add-virtual-server', virtualServer: vs },
    ...list.map((server): Op => ({ kind: 'add-real-server', id: idOf(vs), realServer: server })),
  ];
  const nodeAddress = address(family, 200);
  const ranges = (family === 4 ? ['10.0.0.0/8', '192.0.2.7/32'] : ['2001:db8::7/128', 'fd00::/16']).map((text) =>
    parseCidr(text)!,
  );
  const external = virtualServer(address(family, 20), 80, { traits: addressTraits('external', true) });
  const balanced = virtualServer(address(family, 30), 80, {
    traits: addressTraits('loadBalancer', true, { ranges, itself: true }),
  });
  const nodePort = virtualServer(nodeAddress, 30_080, { traits: addressTraits('nodePort', false) });
  /** A Service with an address of each kind. */
  const everything = (): Op[] => [
    entryOf('NODE-PORT-IP', { type: 'hash:ip', address: nodeAddress }),
    entryOf('NODE-PORT-IP', { type: 'hash:ip', address: address(family, 201) }),
    entryOf('HEALTH-CHECK-NODE-PORT', { type: 'bitmap:port', port: 32_000 as never }),
    ...serve(clusterIp),
    ...serve(external, servers.slice(0, 2)),
    ...serve(balanced, servers.slice(0, 2)),
    ...serve(nodePort),
    ...serve({ ...nodePort, address: address(family, 201) }),
  ];

  /** All that a kernel has, in words. */
  async function text(kernel: Kernel): Promise<string[]> {
    const lines: string[] = [];
    const found = await kernel.getVirtualServers();
    const all = await kernel.getRealServers(found);
    for (const vs of found) {
      const list = (all.get(virtualServerKey(vs)) ?? []).map(({ address: ip, port }) => `${ip}:${port}`).sort();
      lines.push(
        `${vs.protocol} ${vs.address} ${vs.port} ${vs.timeout} ${vs.servicePort} ${traitsText(vs)} -> ${list.join(' ')}`,
      );
    }
    for (const { name, entries } of await kernel.getSets())
      for (const entry of entries) lines.push(`${name} ${formatIpSetEntry(entry)}`);
    return lines.sort();
  }

  /** What was written means what was wanted, also to another process, and a check finds no difference. */
  async function expectWhole(): Promise<void> {
    const reader = await bed().reader();
    const before = await bed().save(family);
    // Another process reads first, so that it is not the first one's memory that is compared.
    const read = await text(reader);
    expect(await text(bed().kernel)).toEqual(read);
    expect(await bed().kernel.compareRules(planRules(CONFIG, family))).toMatchObject({ missing: [] });
    expect(await reader.ensureRules(planRules(CONFIG, family))).toEqual({ changed: false, chains: [] });
    expect(await bed().save(family)).toBe(before);
  }

  test('a chain to which a rule of another program refers is emptied, and deleted once nothing refers to it', async () => {
    expect(await apply(...serve(clusterIp))).toEqual(clean);
    const chain = /:(KUBE-SVC-\w+)/.exec(await bed().save(family))?.[1] ?? '';
    await bed().restore(family, `*nat\n-A PREROUTING -j ${chain}\nCOMMIT\n`);
    expect(await apply({ kind: 'delete-virtual-server', id: idOf(clusterIp) })).toEqual(clean);
    expect((await bed().save(family)).split('\n').filter((line) => /KUBE-S(VC|EP)-/.test(line))).toEqual([
      expect.stringMatching(`^:${chain} -`),
      `-A PREROUTING -j ${chain}`,
    ]);
    expect(await bed().kernel.compareRules(planRules(CONFIG, family))).toMatchObject({ missing: [] });
    await bed().restore(family, `*nat\n-D PREROUTING -j ${chain}\nCOMMIT\n`);
    await bed().kernel.ensureRules(planRules(CONFIG, family));
    expect(await bed().save(family)).not.toContain(chain);
  });

  test('a change after another program removed rules succeeds', async () => {
    expect(await apply(...serve(clusterIp))).toEqual(clean);
    await bed().restore(family, '*nat\n:KUBE-SERVICES - [0:0]\nCOMMIT\n');
    expect(await apply({ kind: 'delete-virtual-server', id: idOf(clusterIp) })).toEqual(clean);
    await bed().kernel.ensureRules(planRules(CONFIG, family));
    expect(await bed().save(family)).not.toMatch(/KUBE-S(VC|EP)-/);
  });

  test('virtual servers of every kind are added, read back by another process, changed and removed', async () => {
    expect(await apply(...everything())).toEqual(clean);
    const whole = await text(bed().kernel);
    expect(whole).toHaveLength(3 + 5);
    await expectWhole();
    expect(await apply(...everything())).toEqual(clean);
    expect(await text(bed().kernel)).toEqual(whole);
    for (const vs of [clusterIp, external, balanced, nodePort]) {
      for (const server of servers) {
        expect(await apply({ kind: 'delete-real-server', id: idOf(vs), realServer: server })).toEqual(clean);
      }
      await expectWhole();
    }
    expect(await apply(...serve(external))).toEqual(clean);
    await expectWhole();
    for (const vs of [external, clusterIp, nodePort, { ...nodePort, address: address(family, 201) }, balanced]) {
      expect(await apply({ kind: 'delete-virtual-server', id: idOf(vs) })).toEqual(clean);
    }
    expect(
      await apply(
        ...everything().flatMap((op): Op[] => (op.kind === 'add-entry' ? [{ ...op, kind: 'delete-entry' }] : [])),
      ),
    ).toEqual(clean);
    await expectWhole();
    expect(await text(bed().kernel)).toEqual([]);
    expect(await bed().save(family)).not.toMatch(/KUBE-(SVC|SVL|SEP|EXT|FW)-/);
  });

  test('chains have the names of kube-proxy', async () => {
    const kubernetes = virtualServer(address(family, 1), 443, { servicePort: 'default/kubernetes:https' });
    const dns = anyVirtualServer(address(family, 2), 53, 'UDP', {
      scheduler: 'random',
      servicePort: 'kube-system/kube-dns:dns',
      traits: addressTraits('cluster', true),
    });
    expect(await apply(...serve(kubernetes), ...serve(dns))).toEqual(clean);
    const saved = await bed().save(family);
    expect(saved).toContain(':KUBE-SVC-NPX46M4PTMTKRN6Y ');
    expect(saved).toContain(':KUBE-SVC-TCOU7JCQXEZGVUNU ');
    await expectWhole();
  });

  test('each protocol, and names that no API server accepts', async () => {
    const names = ['default/x_"; -j ACCEPT_0123', `${'n'.repeat(190)}/`, '-/--'];
    const list = (['TCP', 'UDP', 'SCTP'] as const).flatMap((protocol, at) =>
      names.map((servicePort, n) =>
        anyVirtualServer(address(family, 40 + n), 80 + at, protocol, {
          scheduler: 'random',
          servicePort: servicePort.replace(/[^A-Za-z0-9./:_-]/g, '_'),
          traits: addressTraits('cluster', true),
        }),
      ),
    );
    expect(await apply(...list.flatMap((vs) => serve(vs)))).toEqual(clean);
    await expectWhole();
  });

  test('a changed endpoint rewrites only the chains of its service port', async () => {
    const other = virtualServer(address(family, 50), 80, { servicePort: 'default/other' });
    await apply(...everything(), ...serve(other));
    const before = (await bed().save(family)).split('\n');
    await apply({ kind: 'delete-real-server', id: idOf(other), realServer: servers[3]! });
    const after = (await bed().save(family)).split('\n');
    const gone = before.filter((line) => line.startsWith('-A') && !after.includes(line));
    expect(gone).toHaveLength(5 + 1);
    await expectWhole();
  });

  test('what an address is to its Service is changed, with and without endpoints', async () => {
    const open = { ...balanced, traits: addressTraits('loadBalancer', false) };
    const narrow = {
      ...balanced,
      traits: addressTraits('loadBalancer', true, { ranges: ranges.slice(1), itself: false }),
    };
    const closed = { ...balanced, traits: addressTraits('loadBalancer', true, { ranges: [], itself: false }) };
    const asExternal = { ...balanced, traits: addressTraits('external', false) };
    await apply(...serve(balanced));
    for (const change of [
      [],
      servers.map((each): Op => ({ kind: 'delete-real-server', id: idOf(balanced), realServer: each })),
    ]) {
      expect(await apply(...change)).toEqual(clean);
      for (const server of [open, narrow, asExternal, balanced, closed, balanced]) {
        expect(await apply({ kind: 'edit-virtual-server', virtualServer: server })).toEqual(clean);
        expect(await bed().kernel.getVirtualServers()).toEqual([server]);
        expect(await (await bed().reader()).getVirtualServers()).toEqual([server]);
        await expectWhole();
      }
    }
  });

  test('the sets of the node exist, and no others', async () => {
    await apply(...everything());
    const sets = (await bed().kernel.getSets()).filter((set) => set.family === family);
    expect(sets.map(({ name }) => name)).toEqual(MODE_PLANS.iptables.roles.map((role) => setName(role, family)));
    expect(sets.every(({ entries }) => entries.length > 0)).toBe(true);
    const { failures } = await apply(entryOf('CLUSTER-IP', { type: 'hash:ip,port', ...idOf(clusterIp) }));
    expect(failures.map(({ code }) => code)).toEqual(['EOPNOTSUPP']);
  });

  test('what another program removes, changes or adds is found and repaired', async () => {
    await apply(...everything());
    const whole = await text(bed().kernel);
    const saved = await bed().save(family);
    const chain = /:(KUBE-SVC-\S+)/.exec(saved)?.[1] ?? '';
    const net = formatCidr(ranges[0]!);
    for (const [script, wrong] of [
      [`*nat\n:${chain} - [0:0]\nCOMMIT\n`, `nat ${chain}`],
      [`*nat\n-I ${chain} -j RETURN\nCOMMIT\n`, `nat ${chain}`],
      [`*nat\n-I KUBE-SERVICES -s ${net} -j RETURN\nCOMMIT\n`, 'nat KUBE-SERVICES'],
      ['*filter\n:KUBE-FORWARD - [0:0]\nCOMMIT\n', 'filter KUBE-FORWARD'],
      ['*filter\n:KUBE-PROXY-FIREWALL - [0:0]\nCOMMIT\n', 'filter KUBE-PROXY-FIREWALL'],
      [
        '*filter\n-D FORWARD -m comment --comment "kubernetes forwarding rules" -j KUBE-FORWARD\nCOMMIT\n',
        'filter FORWARD',
      ],
      ['*nat\n:KUBE-SVC-AAAAAAAAAAAAAAAA - [0:0]\nCOMMIT\n', 'nat KUBE-SVC-AAAAAAAAAAAAAAAA'],
    ] as const) {
      await bed().restore(family, script);
      const repaired = await bed().kernel.ensureRules(planRules(CONFIG, family));
      expect(repaired.changed).toBe(true);
      expect(repaired.chains).toContain(wrong);
      // A full check adds what the emptied chains no longer meant.
      await bed().kernel.getSets();
      expect(await apply(...everything())).toEqual(clean);
      expect(await text(bed().kernel)).toEqual(whole);
      await bed().kernel.ensureRules(planRules(CONFIG, family));
      await expectWhole();
      expect(
        (await bed().save(family))
          .split('\n')
          .filter((line) => line.startsWith('-A'))
          .sort(),
      ).toEqual(
        saved
          .split('\n')
          .filter((line) => line.startsWith('-A'))
          .sort(),
      );
    }
  });

  test('tables that another program flushed are written again', async () => {
    await apply(...everything());
    const whole = await text(bed().kernel);
    await bed().restore(family, '*nat\n:KUBE-SERVICES - [0:0]\n:KUBE-NODEPORTS - [0:0]\nCOMMIT\n');
    await bed().kernel.getSets();
    expect(await bed().kernel.getVirtualServers()).toEqual([]);
    expect(await apply(...everything())).toEqual(clean);
    await bed().kernel.ensureRules(planRules(CONFIG, family));
    expect(await text(bed().kernel)).toEqual(whole);
    await expectWhole();
  });
}

function traitsText({ traits }: VirtualServer): string {
  const { kind = 'address', keepsSource = true, admitted } = traits ?? {};
  return `${kind} ${keepsSource} ${admitted?.ranges.map(formatCidr).join(',')} ${admitted?.itself}`;
}
