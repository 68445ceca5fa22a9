import { describe, expect, test } from '@jest/globals';
import { FakeKernel } from '../../fake-kernel/fake-kernel.ts';
import { KernelError } from '../../../src/kernel/kernel-error.ts';
import type { Kernel } from '../../../src/kernel/kernel.ts';
import type { Service } from '../../../src/kube/objects/objects.ts';
import type { SourceEvent } from '../../../src/kube/objects/source.ts';
import { namespacedName } from '../../../src/base/service/names.ts';
import { NodePlan } from '../../../src/plan/node/node-plan.ts';
import { planRules } from '../../../src/plan/ipvs/plan-rules.ts';
import { addressTraits } from '../../../src/state/address-traits.ts';
import { plannedSet } from '../../../src/state/set-roles.ts';
import { applyGuarded } from '../../../src/reconcile/guard/deny-guard.ts';
import { type IpSet, type IpSetEntry, ipSetEntryKey } from '../../../src/state/ip-set.ts';
import { type Op, formatOp } from '../../../src/state/op.ts';
import { Transaction } from '../../../src/state/transaction.ts';
import { formatVirtualServer, virtualServerKey } from '../../../src/state/virtual-server.ts';
import { listed, service, slice } from '../../support/objects.ts';
import { PLAN_CONFIG, Reconciling } from '../../support/reconciling.ts';
import { vsId } from '../../support/state.ts';

const ENOMEM = 12;
const VIP = vsId('203.0.113.20', 80);
const DENY: IpSetEntry = { type: 'hash:ip,port', ...VIP };
const DENY_SET = plannedSet('LOAD-BALANCER-FW', 4, 0);
const CLUSTER_IP = 'TCP 10.96.0.20:80';
const SLICE = slice('guarded', ['10.244.0.5']);

function guarded(ranges: readonly string[] = ['198.51.100.0/24']): Service {
  return service('guarded', '10.96.0.20', {
    type: 'LoadBalancer',
    loadBalancerIngress: [{ ip: '203.0.113.20' }],
    loadBalancerSourceRanges: ranges,
  });
}

function changed(object: Service): SourceEvent {
  return { kind: 'service', event: { type: 'applied', object } };
}

/** The virtual server takes connections, and no rule reads a set that denies them. */
function isOpen(kernel: FakeKernel): boolean {
  if (!kernel.tables.virtualServers.has(virtualServerKey(VIP))) return false;
  const chain = kernel.rules(4)?.chains.find(({ table, name }) => table === 'filter' && name === 'KUBE-PROXY-FIREWALL');
  const rule = chain?.rules[0] ?? [];
  const set = kernel.tables.sets.get(rule[rule.indexOf('--match-set') + 1] ?? '');
  return set?.set.type !== 'hash:ip,port' || !set.entries.has(ipSetEntryKey(DENY));
}

function isServed(kernel: FakeKernel): boolean {
  return kernel.tables.virtualServers.has(virtualServerKey(VIP));
}

async function newKernel(): Promise<FakeKernel> {
  const kernel = new FakeKernel();
  await kernel.prepare();
  return kernel;
}

/** As if another program had created the set, to which rules of an earlier run refer. */
async function withDenySet(change: Partial<IpSet>): Promise<FakeKernel> {
  const kernel = await newKernel();
  const run = new Reconciling(kernel);
  await run.take(...listed([], []));
  await run.reconciler.stop();
  kernel.flushRules(4);
  kernel.put({ kind: 'destroy-set', set: DENY_SET });
  kernel.put({ kind: 'create-set', set: { ...DENY_SET, ...change } });
  await kernel.ensureRules(planRules(PLAN_CONFIG, 4));
  return kernel;
}

/** The n-th call of any method that reads or writes rejects, once. */
function failing(kernel: FakeKernel, nth: number): { kernel: Kernel; calls: () => number } {
  let calls = 0;
  const handler: ProxyHandler<FakeKernel> = {
    get: (target, name) => {
      const value: unknown = Reflect.get(target, name, target);
      if (typeof value !== 'function') return value;
      return (...args: unknown[]): unknown => {
        if (!/^(get|find|apply|ensure)/.test(String(name)) || ++calls !== nth)
          return Reflect.apply(value, target, args);
        return Promise.reject(new KernelError(String(name), 'ENOMEM', `${String(name)} was told to fail`));
      };
    },
  };
  return { kernel: new Proxy(kernel, handler), calls: () => calls };
}

interface Path {
  readonly kernel: () => Promise<FakeKernel>;
  /** Brings the restricted virtual server about. */
  readonly act: (run: Reconciling) => Promise<unknown>;
}

const PATHS: Readonly<Record<string, Path>> = {
  'a first sync': { kernel: newKernel, act: (run) => run.take(...listed([guarded()], [SLICE])) },
  'a change': {
    kernel: newKernel,
    act: async (run) => {
      await run.take(...listed([], [SLICE]));
      await run.take(changed(guarded()));
    },
  },
  'a full check after others flushed sets and virtual servers': {
    kernel: newKernel,
    act: async (run) => {
      await run.take(...listed([guarded()], [SLICE]));
      const { tables } = kernelOf(run);
      tables.virtualServers.clear();
      tables.sets.get(DENY_SET.name)?.entries.clear();
      await run.pass(30_000);
    },
  },
  'a full check after others flushed rules, sets and virtual servers': {
    kernel: newKernel,
    act: async (run) => {
      await run.take(...listed([guarded()], [SLICE]));
      flushAll(kernelOf(run));
      await run.pass(30_000);
    },
  },
  'a change after others flushed rules, sets and virtual servers': {
    kernel: newKernel,
    act: async (run) => {
      await run.take(...listed([guarded()], [SLICE]));
      flushAll(kernelOf(run));
      await run.take({
        kind: 'endpoint-slice',
        event: { type: 'applied', object: slice('guarded', ['10.244.0.5', '10.244.0.6']) },
      });
    },
  },
  'a new Service after others flushed the rules': {
    kernel: newKernel,
    act: async (run) => {
      await run.take(...listed([], [SLICE]));
      flushAll(kernelOf(run));
      await run.take(changed(guarded()));
    },
  },
  'a deny set that must grow': {
    kernel: () => withDenySet({ maxEntries: 64 }),
    act: (run) => run.take(...listed([guarded()], [SLICE])),
  },
  'a deny set of another type': {
    kernel: () => withDenySet({ type: 'hash:ip' }),
    act: (run) => run.take(...listed([guarded()], [SLICE])),
  },
};

/** As `iptables -F`, `ipset flush` and `ipvsadm -C` do together. */
function flushAll(kernel: FakeKernel): void {
  kernel.flushRules(4);
  kernel.flushRules(6);
  kernel.tables.virtualServers.clear();
  for (const set of kernel.tables.sets.values()) set.entries.clear();
}

const KERNELS = new WeakMap<Reconciling, FakeKernel>();

function kernelOf(run: Reconciling): FakeKernel {
  const kernel = KERNELS.get(run);
  if (kernel === undefined) throw new Error('no kernel');
  return kernel;
}

/** Follows a path with one fault, looking after each operation; then lets two minutes pass. */
async function follow(path: Path, fault: { readonly call?: number; readonly op?: number }): Promise<string[]> {
  const kernel = await path.kernel();
  const wrapped = failing(kernel, fault.call ?? 0);
  const run = new Reconciling(wrapped.kernel);
  KERNELS.set(run, kernel);
  const open: string[] = [];
  const look = (when: string): void => {
    if (isOpen(kernel)) open.push(when);
  };
  let ops = 0;
  kernel.failOps((op) => {
    look(`before ${formatOp(op)}`);
    return ++ops === fault.op ? ENOMEM : undefined;
  });
  await path.act(run);
  look('when done');
  for (let passed = 0; passed < 120_000;) {
    const next = run.clock.nextIn ?? 0;
    // Not always a sync: the rules are tried again on a timer of their own.
    run.clock.advance(next);
    for (let turn = 0; turn < 30; turn++) await new Promise((resolve) => setImmediate(resolve));
    look(`after ${run.reports.at(-1)?.kind} sync`);
    passed += Math.max(1, next);
  }
  expect(isServed(kernel)).toBe(true);
  expect(isOpen(kernel)).toBe(false);
  look('in the end');
  return [...open, ...(open.length > 0 ? [JSON.stringify(fault)] : []), ...(ops === 0 ? ['nothing applied'] : [])];
}

async function countOf(path: Path): Promise<{ calls: number; ops: number }> {
  const kernel = await path.kernel();
  const wrapped = failing(kernel, 0);
  const run = new Reconciling(wrapped.kernel);
  KERNELS.set(run, kernel);
  let ops = 0;
  kernel.failOps(() => {
    ops += 1;
    return undefined;
  });
  await path.act(run);
  return { calls: wrapped.calls(), ops };
}

describe('a load balancer IP with source ranges is never open to everyone', () => {
  test.each(Object.keys(PATHS))(
    'a restricted load balancer IP is not open during %s, whichever single operation the kernel refuses',
    async (name) => {
      const path = PATHS[name]!;
      const { ops } = await countOf(path);
      expect(ops).toBeGreaterThan(5);
      for (let op = 0; op <= ops; op++) expect(await follow(path, { op })).toEqual([]);
    },
  );

  test.each(Object.keys(PATHS))(
    'a restricted load balancer IP is not open during %s, whichever single call fails',
    async (name) => {
      const path = PATHS[name]!;
      const { calls } = await countOf(path);
      expect(calls).toBeGreaterThan(5);
      for (let call = 1; call <= calls; call++) expect(await follow(path, { call })).toEqual([]);
    },
  );

  test('a deny set of another type that cannot be replaced withholds the virtual server, and the log names the remedy', async () => {
    const kernel = await withDenySet({ type: 'hash:ip' });
    kernel.failOps((op) => (op.kind === 'destroy-set' && op.set.name === DENY_SET.name ? 4100 : undefined));
    const run = new Reconciling(kernel);
    const report = await run.take(...listed([guarded()], [SLICE]));
    expect(report.ok).toBe(true);
    expect((await kernel.getVirtualServers()).map(formatVirtualServer)).toEqual([CLUSTER_IP]);
    const errors = run.log.lines.filter((line) => line.startsWith('error:')).join('\n');
    expect(errors).toContain('iptables-save | grep KUBE-LOAD-BALANCER-FW');
    expect(errors).not.toContain('--cleanup');
    expect(kernel.tables.sets.get(DENY_SET.name)?.entries.size).toBe(0);
    expect([...kernel.tables.sets.keys()].filter((set) => set.includes('~'))).toEqual([]);
    // Whoever held it lets go of it.
    kernel.recover();
    await run.pass(1_000);
    await run.pass(0);
    expect(isServed(kernel)).toBe(true);
    expect(isOpen(kernel)).toBe(false);
  });
});

describe('a virtual server that is served and gets source ranges', () => {
  test('a virtual server whose new deny entry cannot be written is removed, and served again when it is written', async () => {
    const kernel = await newKernel();
    const run = new Reconciling(kernel);
    await run.take(...listed([guarded([])], [SLICE]));
    expect(isServed(kernel)).toBe(true);
    kernel.failOps((op) => (op.kind === 'add-entry' && op.set.name === DENY_SET.name ? ENOMEM : undefined));
    const report = await run.take(changed(guarded()));
    expect(isServed(kernel)).toBe(false);
    expect(report.failures.map(({ code }) => code).sort()).toEqual(['ENOMEM', 'WITHHELD']);
    expect((await kernel.getVirtualServers()).map(formatVirtualServer)).toEqual([CLUSTER_IP]);
    kernel.recover();
    await run.pass(1_000);
    // The rules are checked before it is added again.
    await run.pass(0);
    expect(isServed(kernel)).toBe(true);
    expect(isOpen(kernel)).toBe(false);
  });

  test('a virtual server whose deny entry was deleted and cannot be restored is removed', async () => {
    const kernel = await newKernel();
    const run = new Reconciling(kernel);
    await run.take(...listed([guarded()], [SLICE]));
    kernel.put({ kind: 'delete-entry', set: DENY_SET, entry: DENY });
    kernel.failOps((op) => (op.kind === 'add-entry' && op.set.name === DENY_SET.name ? ENOMEM : undefined));
    await run.pass(30_000);
    expect(isServed(kernel)).toBe(false);
  });
});

describe('a set that cannot grow', () => {
  const count = 70;

  /** A plan with so many restricted load balancer IPs. */
  function planned(): { plan: NodePlan; adds: Op[]; entries: IpSetEntry[] } {
    const plan = new NodePlan();
    const adds: Op[] = [];
    const entries: IpSetEntry[] = [];
    for (let i = 0; i < count; i++) {
      const id = vsId(`203.0.113.${i + 1}`, 80);
      const virtualServer = { ...id, scheduler: 'lc', flags: 0, timeout: 0, prefix: 32 };
      const name = namespacedName('default', `s${i}`);
      const entry: IpSetEntry = { type: 'hash:ip,port', ...id };
      entries.push(entry);
      adds.push({ kind: 'add-virtual-server', virtualServer });
      plan.replace(name, {
        service: name,
        virtualServers: [
          { virtualServer, realServers: [], traits: addressTraits('loadBalancer', false), portName: '' },
        ],
        addresses: [],
        closed: [],
        hairpins: [],
        entries: [{ role: 'LOAD-BALANCER-FW', family: 4, entry }],
        udp: [],
        noLocalEndpoints: { internal: [], external: [] },
        warnings: [],
      });
    }
    return { plan, adds, entries };
  }

  test('a deny set that cannot grow is filled up to its size; virtual servers of the other entries are withheld', async () => {
    const kernel = await newKernel();
    kernel.put({ kind: 'create-set', set: { ...DENY_SET, maxEntries: 64 } });
    const { plan, adds, entries } = planned();
    kernel.put({ kind: 'add-entry', set: DENY_SET, entry: entries[count - 1]! });
    kernel.failOps((op) => (op.kind === 'grow-set' ? ENOMEM : undefined));
    const grow: Op = { kind: 'grow-set', set: DENY_SET, entries };
    const outcome = await applyGuarded(kernel, plan, new Transaction([grow, ...adds]), { withdraw: true });
    const denied = kernel.tables.sets.get(DENY_SET.name)!.entries;
    expect(denied.size).toBe(64);
    const served = [...kernel.tables.virtualServers.values()].map(({ virtualServer }) => virtualServer);
    expect(served).toHaveLength(64);
    const openOnes = served.filter(
      ({ address, port, protocol }) => !denied.has(ipSetEntryKey({ type: 'hash:ip,port', address, port, protocol })),
    );
    expect(openOnes).toEqual([]);
    const codes = Map.groupBy(outcome.failures, ({ code }) => code);
    expect([...codes].map(([code, all]) => `${code} ${all.length}`)).toEqual([
      'ENOMEM 1',
      'IPSET_ERR_HASH_FULL 6',
      'WITHHELD 6',
    ]);
  });
});
