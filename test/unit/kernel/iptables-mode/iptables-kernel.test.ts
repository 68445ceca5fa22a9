import { describe, expect, test } from '@jest/globals';
import { NodeKernel } from '../../../../src/kernel/linux/node-kernel.ts';
import { iptablesKernelOf } from '../../../../src/kernel/iptables-mode/iptables-kernel.ts';
import { iptablesFailure } from '../../../../src/kernel/iptables/iptables-failure.ts';
import { type IpAddress, parseIp } from '../../../../src/base/ip.ts';
import type { Protocol } from '../../../../src/base/protocol.ts';
import { KernelError } from '../../../../src/kernel/kernel-error.ts';
import { MODE_PLANS } from '../../../../src/plan/mode-plans.ts';
import { planRules } from '../../../../src/plan/ipvs/plan-rules.ts';
import { type SetRole, plannedSet } from '../../../../src/state/set-roles.ts';
import { addressTraits } from '../../../../src/state/address-traits.ts';
import type { IpSetEntry } from '../../../../src/state/ip-set.ts';
import type { Op } from '../../../../src/state/op.ts';
import { formatRealServer } from '../../../../src/state/real-server.ts';
import { Transaction } from '../../../../src/state/transaction.ts';
import { type VirtualServer, formatVirtualServer } from '../../../../src/state/virtual-server.ts';
import { type IptablesBed, iptablesContract } from '../../../contract/iptables-contract.ts';
import { address, endpoint, realServer, virtualServer } from '../../../contract/objects.ts';
import { FakeIptables } from '../../../fake-kernel/fake-iptables.ts';
import { OF_KUBE_PROXY } from '../../../support/chains-of-kube-proxy.ts';
import { iptablesPlane } from '../../../fake-kernel/planes.ts';
import { PLAN_CONFIG, TestLog } from '../../../support/reconciling.ts';

function bedOf(programs: FakeIptables): IptablesBed {
  const { kernel, another } = iptablesPlane(programs);
  return {
    kernel,
    reader: () => Promise.resolve(another()),
    save: (family) => programs.read(family),
    restore: (family, script) => programs.write(family, script),
    [Symbol.asyncDispose]: () => kernel.close(),
  };
}

iptablesContract('with tables in memory', () => Promise.resolve(bedOf(new FakeIptables())));

const CONFIG = { ...PLAN_CONFIG, ...MODE_PLANS.iptables };

/** A Service with a cluster IP and an endpoint. */
function service(n: number, protocol: Protocol = 'TCP'): Op[] {
  const settings = { scheduler: 'random', servicePort: `default/web-${n}`, traits: addressTraits('cluster', true) };
  const id = virtualServer(address(4, n), 80, protocol, settings);
  return [
    { kind: 'add-virtual-server', virtualServer: id },
    { kind: 'add-real-server', id, realServer: realServer(endpoint(4, n), 80) },
  ];
}

type Refusal = (bad: RegExp) => FakeIptables['refuse'];

/** What iptables-nft-restore says when the kernel refuses rules. */
const namedByNft: Refusal = (bad) => (section, before) => {
  const lines = section.split('\n').flatMap((line, at) => (bad.test(line) ? [before + at + 1] : []));
  return lines.length === 0
    ? undefined
    : lines.map((line) => `line ${line}: RULE_APPEND failed (No such file or directory): rule in chain X`).join('\n');
};

/** What both programs say when they lack a match. */
const namedByParser: Refusal = (bad) => (section, before) => {
  const at = section.split('\n').findIndex((line) => bad.test(line));
  return at < 0 ? undefined : `Couldn't load match \`sctp'\n\nError occurred at line: ${before + at + 1}`;
};

/** What iptables-legacy-restore says when the kernel refuses rules. */
const namedByLegacy: Refusal = (bad) => (section, before) =>
  section.split('\n').some((line) => bad.test(line))
    ? `iptables-restore: line ${before + section.split('\n').length - 1} failed`
    : undefined;

async function prepared() {
  const programs = new FakeIptables();
  const bed = bedOf(programs);
  for (const family of [4, 6] as const) await bed.kernel.ensureRules(planRules(CONFIG, family));
  return { programs, ...bed };
}

describe('node ports at loopback addresses', () => {
  const rules = planRules(CONFIG, 4);
  const set = plannedSet('NODE-PORT-IP', 4, 0);
  const entryOf = (text: string): IpSetEntry => ({ type: 'hash:ip', address: parseIp(text) as IpAddress });
  const drops = async (programs: FakeIptables): Promise<number> =>
    (await programs.read(4)).match(/^-A KUBE-NODEPORTS .*block incoming localnet/gm)?.length ?? 0;

  test('all have one rule that keeps other hosts out, until the last address goes', async () => {
    const { programs, kernel } = await prepared();
    const change = async (kind: 'add-entry' | 'delete-entry', ...texts: readonly string[]): Promise<void> => {
      const ops = texts.map((text) => ({ kind, set, entry: entryOf(text) }) as const);
      expect(await kernel.apply(new Transaction(ops))).toEqual({ failures: [] });
    };
    await change('add-entry', '127.0.0.1', '192.0.2.1');
    await change('add-entry', '127.0.0.2');
    expect(await drops(programs)).toBe(1);
    expect((await kernel.compareRules(rules)).missing).toEqual([]);
    await change('delete-entry', '127.0.0.2');
    expect([await drops(programs), (await kernel.compareRules(rules)).missing]).toEqual([1, []]);
    await change('delete-entry', '127.0.0.1');
    expect([await drops(programs), (await kernel.compareRules(rules)).missing]).toEqual([0, []]);
  });
});

describe('transactions', () => {
  test('what iptables-restore refuses does not stop the others, and is named', async () => {
    const { programs, kernel } = await prepared();
    programs.refuse = namedByNft(/default\/web-3/);
    const ops = [1, 2, 3, 4, 5].flatMap((n) => service(n));
    const { failures } = await kernel.apply(new Transaction(ops));
    expect(failures.map(({ op }) => op)).toEqual(service(3));
    expect(failures[0]).toMatchObject({ code: 'IPTABLES', text: expect.stringContaining('RULE_APPEND failed') });
    expect(await kernel.getVirtualServers()).toHaveLength(4);
    programs.refuse = () => undefined;
    expect(await kernel.apply(new Transaction(service(3)))).toEqual({ failures: [] });
    expect(await kernel.getVirtualServers()).toHaveLength(5);
    expect(await kernel.compareRules(planRules(CONFIG, 4))).toMatchObject({ missing: [] });
  });

  describe.each([
    ['the nft variant, which names each line', false, namedByNft, 3],
    ['either variant that lacks a match', false, namedByParser, 12],
    ['the legacy variant, which names the end of the table', false, namedByLegacy, 110],
    ['the nft variant, with another protocol', true, namedByNft, 3],
    ['either variant that lacks a match, with another protocol', true, namedByParser, 12],
    ['the legacy variant, with another protocol', true, namedByLegacy, 30],
  ])('200 Services of which 10 are refused by %s', (_name, isSctp, refusal, mostWrites) => {
    test('only these fail, and the others are soon in force', async () => {
      const { programs, kernel } = await prepared();
      const isBad = (n: number): boolean => n % 20 === 7;
      programs.refuse = refusal(isSctp ? / -p sctp -m/ : /default\/web-(\d*[02468])?7" .* -j DNAT/);
      const ops = Array.from({ length: 200 }, (_, n) => service(n, isSctp && isBad(n) ? 'SCTP' : 'TCP')).flat();
      const bad = new Set(ops.filter((_, at) => isBad(Math.floor(at / 2))));
      programs.writes = 0;
      programs.reads = 0;
      const { failures } = await kernel.apply(new Transaction(ops));
      expect(failures.filter(({ op }) => !bad.has(op))).toEqual([]);
      expect(failures).toHaveLength(20);
      expect(await kernel.getVirtualServers()).toHaveLength(190);
      expect(programs.writes).toBeLessThanOrEqual(mostWrites);
      expect(programs.reads).toBe(1);
      // From now on, they are known.
      programs.writes = 0;
      programs.reads = 0;
      const again = await kernel.apply(new Transaction([...service(3000), ...bad]));
      expect(again.failures).toHaveLength(20);
      expect([programs.writes, programs.reads]).toEqual([9, 0]);
      programs.refuse = () => undefined;
      expect(await kernel.apply(new Transaction(bad))).toEqual({ failures: [] });
      expect(await kernel.compareRules(planRules(CONFIG, 4))).toMatchObject({ missing: [] });
    });
  });

  test.each([
    ['at once', 1],
    ['after a rule was refused', 2],
  ])('a restore that is killed %s ends the transaction, and no Service counts as refused', async (_when, nth) => {
    const { programs, kernel } = await prepared();
    const write = programs.write.bind(programs);
    programs.refuse = namedByNft(/default\/web-3\b/);
    programs.writes = 0;
    programs.write = async (family, script) => {
      if (programs.writes + 1 < nth) return await write(family, script);
      programs.writes += 1;
      throw iptablesFailure('iptables-restore', { status: -1, signal: 'SIGKILL', stdout: '', stderr: '' });
    };
    const ops = Array.from({ length: 100 }, (_, n) => service(n)).flat();
    const outcome = await kernel.apply(new Transaction(ops));
    expect(programs.writes).toBe(nth);
    expect(outcome).toMatchObject({ stopped: expect.stringContaining('terminated by a signal') });
    expect(outcome.failures).toHaveLength(200);
    programs.write = write;
    programs.writes = 0;
    // Those that count as refused would be written on their own.
    expect(await kernel.apply(new Transaction([...ops.slice(0, 6), ...ops.slice(8)]))).toEqual({ failures: [] });
    expect(programs.writes).toBe(1);
  });

  test('what was refused before is tried again in turn, and costs a few programs each time', async () => {
    const { programs, kernel } = await prepared();
    const refuse = (bad: RegExp): void => {
      programs.refuse = namedByNft(bad);
    };
    refuse(/default\/web-/);
    const ops = Array.from({ length: 50 }, (_, n) => service(n)).flat();
    expect((await kernel.apply(new Transaction(ops))).failures).toHaveLength(100);
    // All but one are still refused.
    refuse(/default\/web-(?!49)/);
    programs.writes = 0;
    for (let turn = 0; turn < 7; turn++) await kernel.apply(new Transaction(ops));
    expect(programs.writes).toBeLessThanOrEqual(7 * 9);
    expect(await kernel.getVirtualServers()).toMatchObject([{ servicePort: 'default/web-49' }]);
    // Success is not limited.
    programs.refuse = () => undefined;
    expect(await kernel.apply(new Transaction(ops))).toEqual({ failures: [] });
    expect(await kernel.getVirtualServers()).toHaveLength(50);
  });

  test('if nothing can be written, no operation is tried on its own', async () => {
    const { programs, kernel } = await prepared();
    programs.write = () => Promise.reject(new KernelError('iptables', 'LOCKED', 'another program holds the lock'));
    programs.reads = 0;
    const ops = [1, 2, 3].flatMap((n) => service(n));
    const { failures } = await kernel.apply(new Transaction(ops));
    expect(failures.map(({ code }) => code)).toEqual(ops.map(() => 'LOCKED'));
    expect(await kernel.getVirtualServers()).toEqual([]);
    expect(programs.reads).toBeLessThan(3);
  });

  test('after a failure between two tables, they are read again', async () => {
    const { programs, kernel } = await prepared();
    await kernel.apply(new Transaction(service(1)));
    // The endpoint is gone: the rejection is written, but not the rest.
    const gone: Op = { ...(service(1)[1] as Extract<Op, { kind: 'add-real-server' }>), kind: 'delete-real-server' };
    programs.interrupted = true;
    expect((await kernel.apply(new Transaction([gone]))).failures).toHaveLength(1);
    programs.interrupted = false;
    expect(await kernel.getRealServers(await kernel.getVirtualServers())).toMatchObject({ size: 1 });
    expect(await kernel.apply(new Transaction([gone]))).toEqual({ failures: [] });
    await kernel.ensureRules(planRules(CONFIG, 4));
    const saved = await programs.read(4);
    expect(saved.match(/default\/web-1/g)).toHaveLength(1);
  });

  test('the commands that would repair the tables create a chain, or empty it', async () => {
    const { programs, kernel } = await prepared();
    programs.change(4, 'filter', (chains) => chains.set('KUBE-FORWARD', []));
    programs.change(4, 'nat', (chains) => {
      chains.delete('KUBE-POSTROUTING');
      chains.set('POSTROUTING', []);
    });
    await kernel.getSets();
    const { missing } = await kernel.compareRules(planRules(CONFIG, 4));
    expect(missing.map(({ command }) => command).filter((command) => / -[NF] /.test(command))).toEqual([
      'iptables -t filter -F KUBE-FORWARD',
      'iptables -t nat -N KUBE-POSTROUTING',
    ]);
  });

  test('a full check reads the tables once for each family', async () => {
    const programs = new FakeIptables();
    const kernel = iptablesKernelOf(new NodeKernel({ log: new TestLog() }), programs);
    for (const family of [4, 6] as const) await kernel.ensureRules(planRules(CONFIG, family));
    await kernel.getSets();
    const before = programs.reads;
    await kernel.getSets();
    await kernel.getRealServers(await kernel.getVirtualServers());
    for (const family of [4, 6] as const) await kernel.ensureRules(planRules(CONFIG, family));
    expect(programs.reads - before).toBeLessThanOrEqual(2);
  });

  test('a reading is new when it ends, however long it took', async () => {
    const programs = new FakeIptables();
    const kernel = iptablesKernelOf(new NodeKernel({ log: new TestLog() }), programs, 1_000);
    const read = programs.read.bind(programs);
    programs.read = async (family) => {
      await new Promise((resolve) => setTimeout(resolve, family === 4 ? 1_200 : 0));
      return await read(family);
    };
    await kernel.getSets();
    expect(programs.reads).toBe(2);
    await kernel.ensureRules(planRules(CONFIG, 6));
    const before = programs.reads;
    await kernel.getSets(['KUBE-CLUSTER-IP']);
    await kernel.getSets();
    expect(programs.reads).toBe(before);
  });

  test('while only this program changes the ruleset of nf_tables, full checks read nothing; a change of others is found', async () => {
    const { programs, kernel } = await prepared();
    let generation = 7;
    programs.generation = () => Promise.resolve(generation);
    const write = programs.write.bind(programs);
    programs.write = (family, script) => {
      generation += script.split('COMMIT').length - 1;
      return write(family, script);
    };
    const reads = async (): Promise<number> => {
      const before = programs.reads;
      await kernel.getSets();
      await kernel.ensureRules(planRules(CONFIG, 4));
      await kernel.ensureRules(planRules(CONFIG, 6));
      return programs.reads - before;
    };
    expect(await reads()).toBeGreaterThan(0);
    await kernel.apply(new Transaction(service(1)));
    expect(await reads()).toBe(0);
    await kernel.apply(new Transaction([...service(2), ...service(3)]));
    await kernel.apply(new Transaction(service(4)));
    expect(await reads()).toBe(0);
    expect(await kernel.getVirtualServers()).toHaveLength(4);
    // Between the transactions of ours.
    programs.change(4, 'nat', (chains) => chains.set('KUBE-SERVICES', []));
    generation += 1;
    await kernel.apply(new Transaction(service(5)));
    expect(await kernel.ensureRules(planRules(CONFIG, 4))).toMatchObject({ changed: true });
    expect(await kernel.getVirtualServers()).toHaveLength(1);
    expect(programs.tables[4].get('nat')?.get('PREROUTING')).toHaveLength(1);
    expect(await reads()).toBeGreaterThan(0);
    expect(await reads()).toBe(0);
    // While a transaction of ours is on its way.
    programs.generation = () => Promise.resolve(generation++);
    await kernel.apply(new Transaction(service(6)));
    expect(await reads()).toBeGreaterThan(0);
  });

  test('thousands of Services are one script, and one more Service a small one', async () => {
    const { programs, kernel } = await prepared();
    const before = programs.scripts.length;
    const many = Array.from({ length: 2000 }, (_, n) => service(n + 1)).flat();
    expect(await kernel.apply(new Transaction(many))).toEqual({ failures: [] });
    expect(programs.scripts).toHaveLength(before + 1);
    await kernel.apply(new Transaction(service(3000)));
    expect(programs.scripts.at(-1)?.split('\n').length).toBeLessThan(15);
    const removed = many.flatMap((op): Op[] =>
      op.kind === 'add-virtual-server' ? [{ kind: 'delete-virtual-server', id: op.virtualServer }] : [],
    );
    expect(await kernel.apply(new Transaction(removed))).toEqual({ failures: [] });
    expect(await kernel.getVirtualServers()).toHaveLength(1);
  });
});

test('an external IP that is an address of the node, at the port of a node port of another Service', async () => {
  const { programs, kernel, ...bed } = await prepared();
  const nodes = [address(4, 200), address(4, 201)];
  const add = (role: SetRole, entry: IpSetEntry): Op => ({ kind: 'add-entry', set: plannedSet(role, 4, 0), entry });
  const external = virtualServer(nodes[0]!, 30_080, 'TCP', {
    scheduler: 'random',
    servicePort: 'default/external',
    traits: addressTraits('external', false),
  });
  const nodePort = virtualServer(nodes[1]!, 30_080, 'TCP', {
    scheduler: 'random',
    servicePort: 'default/web',
    traits: addressTraits('nodePort', false),
  });
  const endpointOf = (vs: VirtualServer): Op => ({
    kind: 'add-real-server',
    id: vs,
    realServer: realServer(endpoint(4, 1), 80),
  });
  const ops = [
    ...nodes.map((node) => add('NODE-PORT-IP', { type: 'hash:ip', address: node })),
    ...[external, nodePort].flatMap((vs): Op[] => [{ kind: 'add-virtual-server', virtualServer: vs }, endpointOf(vs)]),
  ];
  const nodePorts = (): readonly string[] => programs.tables[4].get('nat')?.get('KUBE-NODEPORTS') ?? [];
  expect(await kernel.apply(new Transaction(ops))).toEqual({ failures: [] });
  expect(nodePorts()).toEqual([expect.stringMatching(/^-p tcp .* --dport 30080 -j KUBE-EXT-/)]);
  // Without endpoints it is rejected, so that the node port must not be served at its address.
  const gone: Op = {
    ...(endpointOf(external) as Extract<Op, { kind: 'add-real-server' }>),
    kind: 'delete-real-server',
  };
  expect(await kernel.apply(new Transaction([gone]))).toEqual({ failures: [] });
  expect(nodePorts()).toEqual([expect.stringMatching(/^-d 10\.96\.0\.201\/32 -p tcp /)]);
  for (const each of [kernel, await bed.reader()]) {
    const found = await each.getVirtualServers();
    expect(new Set(found.map(({ servicePort }) => servicePort))).toEqual(new Set(['default/external', 'default/web']));
  }
  expect(await kernel.apply(new Transaction([endpointOf(external)]))).toEqual({ failures: [] });
  expect(nodePorts()).toEqual([expect.stringMatching(/^-p tcp .* --dport 30080 -j KUBE-EXT-/)]);
  expect(await kernel.compareRules(planRules(CONFIG, 4))).toMatchObject({ missing: [] });
});

describe('chains of kube-proxy', () => {
  async function afterKubeProxy() {
    const programs = new FakeIptables();
    await programs.write(4, OF_KUBE_PROXY);
    return { programs, ...bedOf(programs) };
  }

  test('are understood', async () => {
    const { kernel } = await afterKubeProxy();
    const found = await kernel.getVirtualServers();
    expect(found.map((vs) => `${formatVirtualServer(vs)} ${vs.servicePort}`)).toEqual([
      'TCP 10.96.0.10:80 default/web:http',
      'TCP 203.0.113.1:80 default/web:http',
    ]);
    const servers = await kernel.getRealServers(found);
    expect([...servers.values()].map((list) => list.map(formatRealServer))).toEqual([
      ['10.244.0.5:8080'],
      ['10.244.0.5:8080'],
    ]);
    expect(found.map(({ traits }) => traits)).toEqual([
      addressTraits('cluster', true),
      addressTraits('external', true),
    ]);
  });

  test('are kept until the rules may be replaced; then what is not ours is gone', async () => {
    const { programs, kernel } = await afterKubeProxy();
    const before = await programs.read(4);
    expect(await kernel.addRules(planRules(CONFIG, 4))).toBe(false);
    expect(await programs.read(4)).toBe(before);
    expect(await kernel.apply(new Transaction(service(7)))).toEqual({ failures: [] });
    for (const line of before.split('\n')) expect(await programs.read(4)).toContain(line);
    expect(await kernel.ensureRules(planRules(CONFIG, 4))).toMatchObject({ changed: true });
    const after = await programs.read(4);
    expect(after).not.toMatch(/GONE|VVVV|TTTT|default\/empty|dst-type LOCAL/);
    expect(after).toContain('--comment "default/web:http cluster IP"');
    expect(await kernel.ensureRules(planRules(CONFIG, 4))).toEqual({ changed: false, chains: [] });
    expect(await kernel.getVirtualServers()).toHaveLength(3);
  });

  test('a chain that a rule of another program refers to is emptied only', async () => {
    const { programs, kernel } = await afterKubeProxy();
    programs.change(4, 'nat', (chains) => chains.set('THEIRS', ['-j KUBE-SVC-GONEGONEGONEGONE']));
    programs.change(4, 'nat', (chains) => chains.get('KUBE-SVC-GONEGONEGONEGONE')!.push('-j RETURN'));
    for (const changed of [true, false]) {
      expect(await kernel.ensureRules(planRules(CONFIG, 4))).toMatchObject({ changed });
    }
    expect(programs.tables[4].get('nat')?.get('KUBE-SVC-GONEGONEGONEGONE')).toEqual([]);
  });
});
