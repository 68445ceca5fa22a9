import { afterEach, beforeEach, describe, expect, test } from '@jest/globals';
import { parseCidr } from '../../src/base/cidr.ts';
import { type IpAddress, type IpFamily, IP_FAMILIES } from '../../src/base/ip.ts';
import type { Protocol } from '../../src/base/protocol.ts';
import type { ProxyMode } from '../../src/base/proxy-mode.ts';
import type { Kernel } from '../../src/kernel/kernel.ts';
import { planRules } from '../../src/plan/ipvs/plan-rules.ts';
import type { PlanConfig } from '../../src/plan/plan-config.ts';
import { addressTraits } from '../../src/state/address-traits.ts';
import type { Op } from '../../src/state/op.ts';
import type { RealServer } from '../../src/state/real-server.ts';
import { Transaction } from '../../src/state/transaction.ts';
import { VS_PERSISTENT, type VirtualServer, virtualServerKey } from '../../src/state/virtual-server.ts';
import { MODE_PLANS } from '../../src/plan/mode-plans.ts';
import { PLAN_CONFIG } from '../support/reconciling.ts';
import { address, endpoint, realServer, virtualServer } from './objects.ts';

/** The kernel of a mode, and one that knows only what is in force: as another process does. */
export interface PlaneBed extends AsyncDisposable {
  readonly kernel: Kernel;
  reader(): Promise<Kernel>;
}

export function planIn(mode: ProxyMode): PlanConfig {
  return {
    ...PLAN_CONFIG,
    ...MODE_PLANS[mode],
    localDetectors: {
      4: { kind: 'cidr', cidr: parseCidr('10.0.0.0/9')! },
      6: { kind: 'cidr', cidr: parseCidr('fd00::/41')! },
    },
  };
}

/** What the Kernel of every mode must do, and what it must refuse: on the real kernel and in memory. Each test gets a new one. */
export function planeContract(mode: ProxyMode, makeBed: () => Promise<PlaneBed>): void {
  describe(`every mode: ${mode}`, () => {
    let bed: PlaneBed;
    beforeEach(async () => {
      bed = await makeBed();
      await bed.kernel.prepare();
      // In ipvs mode, rules refer to sets, and no virtual server depends on them.
      if (mode !== 'ipvs')
        for (const family of IP_FAMILIES) await bed.kernel.ensureRules(planRules(planIn(mode), family));
    });
    afterEach(async () => {
      await bed[Symbol.asyncDispose]();
    });
    for (const family of IP_FAMILIES) {
      describe(`IPv${family}`, () => {
        ofFamily(mode, family, () => bed);
      });
    }

    test('a scheduler that the mode does not have is refused', async () => {
      await bed.kernel.probeScheduler(SCHEDULER[mode]);
      await expect(bed.kernel.probeScheduler('nosuch')).rejects.toThrow(REFUSAL[mode]);
    });
  });
}

const REFUSAL: Readonly<Record<ProxyMode, string>> = {
  ipvs: 'ip_vs_nosuch',
  nftables: 'nftables mode chooses endpoints at random',
  iptables: 'iptables mode chooses endpoints at random',
  userspace: 'userspace mode has the schedulers rr, wrr, lc and wlc',
};

const SCHEDULER: Readonly<Record<ProxyMode, string>> = {
  ipvs: 'rr',
  nftables: 'random',
  iptables: 'random',
  userspace: 'wrr',
};

/** Node.js has no SCTP, so the engine of userspace mode has none. */
const PROTOCOLS: Readonly<Record<ProxyMode, readonly Protocol[]>> = {
  ipvs: ['TCP', 'UDP', 'SCTP'],
  nftables: ['TCP', 'UDP', 'SCTP'],
  iptables: ['TCP', 'UDP', 'SCTP'],
  userspace: ['TCP', 'UDP'],
};

/** A virtual server as the mode plans it. */
export function serverIn(
  mode: ProxyMode,
  at: IpAddress,
  port: number,
  protocol: Protocol = 'TCP',
  change: Partial<VirtualServer> = {},
): VirtualServer {
  const named = { servicePort: `default/web:p${port}`, traits: addressTraits('cluster', true) };
  const settings = { scheduler: SCHEDULER[mode], ...(mode === 'iptables' ? named : {}) };
  return virtualServer(at, port, protocol, { ...settings, ...change });
}

/** The operations that add a virtual server with its endpoints. */
export function serve(vs: VirtualServer, endpoints: readonly RealServer[]): Op[] {
  return [
    { kind: 'add-virtual-server', virtualServer: vs },
    ...endpoints.map((each): Op => ({ kind: 'add-real-server', id: vs, realServer: each })),
  ];
}

function ofFamily(mode: ProxyMode, family: IpFamily, bed: () => PlaneBed): void {
  const clean = { failures: [] };
  const apply = async (...ops: readonly Op[]) => await bed().kernel.apply(new Transaction(ops));
  const vs = serverIn(mode, address(family, 10), 80);
  const servers = [1, 2, 3, 4].map((n) => realServer(endpoint(family, n), 8080));
  const remove = (server: RealServer): Op => ({ kind: 'delete-real-server', id: vs, realServer: server });

  const text = ({ address: at, port, weight }: RealServer): string => `${at} ${port} ${weight}`;
  const texts = (list: readonly RealServer[]): string[] => list.map(text).sort();

  async function endpoints(kernel: Kernel, id = vs): Promise<string[]> {
    return texts((await kernel.getRealServers([id])).get(virtualServerKey(id)) ?? []);
  }

  /** The kernel has these, also as another process sees it, and a check of the rules changes nothing. */
  async function expectServers(wanted: readonly VirtualServer[], list: readonly RealServer[] = []): Promise<void> {
    const { kernel } = bed();
    for (const each of [await bed().reader(), kernel]) {
      const byKey = new Map((await each.getVirtualServers()).map((found) => [virtualServerKey(found), found]));
      expect(byKey).toEqual(new Map(wanted.map((server) => [virtualServerKey(server), server])));
      expect(await endpoints(each)).toEqual(texts(list));
    }
    if (mode === 'ipvs') return;
    expect(await kernel.ensureRules(planRules(planIn(mode), family))).toEqual({ changed: false, chains: [] });
  }

  test('virtual servers and their endpoints are added, read back, removed one by one and together', async () => {
    const { kernel } = bed();
    for (let times = 0; times < 2; times++) expect(await apply(...serve(vs, servers))).toEqual(clean);
    await expectServers([vs], servers);
    expect(await kernel.findVirtualServers([vs])).toEqual(new Map([[virtualServerKey(vs), vs]]));
    // The first, the last and one between them: the others keep what they have.
    for (const [gone, left] of [
      [servers[0]!, [servers[1]!, servers[2]!, servers[3]!]],
      [servers[3]!, [servers[1]!, servers[2]!]],
      [servers[1]!, [servers[2]!]],
      [servers[2]!, []],
    ] as const) {
      for (let times = 0; times < 2; times++) expect(await apply(remove(gone))).toEqual(clean);
      await expectServers([vs], left);
    }
    await apply(...serve(vs, servers));
    const whole: Op = { kind: 'delete-virtual-server', id: vs };
    expect(await apply(whole, whole)).toEqual(clean);
    await expectServers([]);
  });

  test('those of each protocol stand beside each other on the same port', async () => {
    const all = PROTOCOLS[mode].map((protocol) => {
      const servicePort = `default/web:${protocol.toLowerCase()}`;
      return serverIn(mode, vs.address, 80, protocol, mode === 'iptables' ? { servicePort } : {});
    });
    expect(await apply(...all.flatMap((each, count) => serve(each, servers.slice(0, count + 1))))).toEqual(clean);
    await expectServers(all, servers.slice(0, 1));
    const found = await bed().kernel.getRealServers(all);
    expect(all.map((id) => found.get(virtualServerKey(id))?.length)).toEqual(all.map((_, at) => at + 1));
  });

  test('those that are not there are absent where they are asked for', async () => {
    const { kernel } = bed();
    const other = serverIn(mode, address(family, 11), 80);
    await apply(...serve(vs, []));
    expect([...(await kernel.findVirtualServers([other, vs])).keys()]).toEqual([virtualServerKey(vs)]);
    expect([...(await kernel.getRealServers([other, vs])).values()].flat()).toEqual([]);
    expect(await kernel.findVirtualServers([])).toEqual(new Map());
    expect(await kernel.getRealServers([])).toEqual(new Map());
  });

  test('session affinity is switched on and off, with and without endpoints', async () => {
    const edit = (server: VirtualServer): Op => ({ kind: 'edit-virtual-server', virtualServer: server });
    const sticky = { ...vs, flags: VS_PERSISTENT, timeout: 10_800 };
    await apply(...serve(vs, servers));
    for (const server of [sticky, { ...sticky, timeout: 60 }, vs, sticky]) {
      expect(await apply(edit(server))).toEqual(clean);
      await expectServers([server], servers);
    }
    expect(await apply(remove(servers[1]!))).toEqual(clean);
    await expectServers([sticky], servers.toSpliced(1, 1));
    expect(await apply(...servers.map(remove))).toEqual(clean);
    // In tables and chains, what rejects connections has none.
    await expectServers([mode === 'ipvs' || mode === 'userspace' ? sticky : vs], []);
    expect(await apply(edit(vs))).toEqual(clean);
    await expectServers([vs], []);
  });

  test('an operation that is not possible is named with its errno, and the others are done', async () => {
    const missing = serverIn(mode, address(family, 99), 80);
    const refused: readonly (readonly [Op, string])[] = [
      [{ kind: 'edit-virtual-server', virtualServer: missing }, 'ESRCH'],
      [{ kind: 'add-real-server', id: missing, realServer: servers[0]! }, 'ESRCH'],
      [{ kind: 'edit-real-server', id: vs, realServer: servers[1]! }, 'ENOENT'],
      [
        { kind: 'add-virtual-server', virtualServer: { ...missing, scheduler: 'nosuch' } },
        mode === 'ipvs' ? 'ENOENT' : 'EOPNOTSUPP',
      ],
    ];
    // In ipvs mode, both are possible.
    const ofIpvs: readonly Op[] = [
      { kind: 'add-real-server', id: vs, realServer: { ...servers[2]!, forwarding: 3 } },
      { kind: 'bind-address', address: vs.address },
    ];
    const ops = [...refused, ...(mode === 'ipvs' ? [] : ofIpvs.map((op) => [op, 'EOPNOTSUPP'] as const))];
    const { failures } = await apply(...ops.map(([op]) => op), ...serve(vs, servers.slice(0, 1)));
    expect(new Set(failures.map(({ op, code }) => `${op.kind} ${code}`))).toEqual(
      new Set(ops.map(([op, code]) => `${op.kind} ${code}`)),
    );
    await expectServers([vs], servers.slice(0, 1));
  });

  test('thousands are one transaction', async () => {
    const { kernel } = bed();
    const all = Array.from({ length: 1500 }, (_, n) =>
      serverIn(
        mode,
        address(family, 256 + n),
        80,
        'TCP',
        mode === 'iptables' ? { servicePort: `default/w:p${n}` } : {},
      ),
    );
    expect(await apply(...all.flatMap((each, n) => serve(each, [realServer(endpoint(family, n), 80)])))).toEqual(clean);
    const found = await kernel.getVirtualServers();
    expect(found).toHaveLength(1500);
    const lists = await kernel.getRealServers(found);
    expect([...lists.values()].filter((list) => list.length === 1)).toHaveLength(1500);
    expect((await kernel.findVirtualServers(found.slice(0, 100))).size).toBe(100);
  });
}
