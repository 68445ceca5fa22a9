import { describe, expect, test } from '@jest/globals';
import { type ProxyMode, isMode } from '../../../src/base/proxy-mode.ts';
import type { NamespacedName } from '../../../src/base/service/names.ts';
import type { PlannedOperation } from '../../../src/explain/replies.ts';
import type { KernelReader } from '../../../src/kernel/kernel.ts';
import { readOnlyKernel } from '../../../src/kernel/kernel-reader.ts';
import type { SourceEvent } from '../../../src/kube/objects/source.ts';
import { Cluster } from '../../../src/model/cluster.ts';
import { plannedSet } from '../../../src/state/set-roles.ts';
import { NO_SETTINGS, type NodeSettings } from '../../../src/reconcile/node/node-settings.ts';
import { Shadow } from '../../../src/reconcile/shadow.ts';
import { Transaction } from '../../../src/state/transaction.ts';
import type { Op } from '../../../src/state/op.ts';
import { FakeKernel } from '../../fake-kernel/fake-kernel.ts';
import { type Plane, PLANES, nftablesPlane } from '../../fake-kernel/planes.ts';
import { tablesOfKubeProxy } from '../../support/tables-of-kube-proxy.ts';
import { endpoint, listed, service, slice } from '../../support/objects.ts';
import { MODE_PLANS } from '../../../src/plan/mode-plans.ts';
import { FakeClock, PLAN_CONFIG, Reconciling, TestLog } from '../../support/reconciling.ts';
import { address, real, vsId } from '../../support/state.ts';

const WEB = service('web', '10.96.0.10');
const ID = vsId('10.96.0.10', 80);
const SETTLE_MS = 5_000;

/** A shadow of node-a, beside whatever wrote to the kernel. */
class Shadowing {
  readonly clock = new FakeClock();
  readonly cluster = new Cluster('node-a');
  readonly reports: (readonly PlannedOperation[])[] = [];
  readonly failures: string[] = [];
  readonly shadow: Shadow;

  constructor(kernel: KernelReader, nodeSettings: NodeSettings = NO_SETTINGS, plan = PLAN_CONFIG) {
    this.shadow = new Shadow({
      kernel: readOnlyKernel(kernel),
      cluster: this.cluster,
      plan,
      nodeIpOverride: undefined,
      excludeCidrs: [],
      syncPeriodMs: 30_000,
      nodeSettings,
      clock: this.clock,
      log: new TestLog(),
      observer: {
        queued: () => undefined,
        compared: (confirmed) => this.reports.push(confirmed),
        failed: (error) => this.failures.push(error.message),
      },
    });
  }

  take(...events: readonly SourceEvent[]): void {
    for (const event of events) this.cluster.apply(event);
    this.shadow.clusterChanged();
  }

  /** Advances the clock to the next comparison, and waits for its end. */
  async compare(): Promise<void> {
    this.clock.advance(this.clock.nextIn ?? 0);
    while (this.clock.nextIn === undefined) await new Promise((resolve) => setImmediate(resolve));
  }

  /** The commands that the last two comparisons have found. */
  get found(): readonly string[] {
    return (this.reports.at(-1) ?? []).map(({ command }) => command);
  }
}

/** A kernel that our own daemon has programmed, and a shadow beside it after its first report. */
async function besideOurs(change: (kernel: FakeKernel) => void = () => undefined, settings?: NodeSettings) {
  const kernel = new FakeKernel();
  await kernel.prepare();
  const events = listed([WEB], [slice('web', ['10.244.0.5', '10.244.0.6'])]);
  await new Reconciling(kernel).settle(...events);
  change(kernel);
  const { writes } = kernel.counters;
  const run = new Shadowing(kernel, settings);
  run.take(...events);
  await run.compare();
  await run.compare();
  return { kernel, run, written: () => kernel.counters.writes - writes };
}

test('beside our own daemon, a shadow finds no difference', async () => {
  const { run, written } = await besideOurs();
  expect(run.reports).toEqual([[]]);
  expect(run.shadow.started).toBe(true);
  expect(written()).toBe(0);
});

test('the first report follows the second comparison', async () => {
  const kernel = new FakeKernel();
  const run = new Shadowing(kernel);
  run.take(...listed([WEB], []));
  await run.compare();
  expect(run.reports).toEqual([]);
  expect(run.clock.nextIn).toBe(SETTLE_MS);
  await run.compare();
  expect(run.reports).toHaveLength(1);
  expect(run.found).toContain('ipvsadm -A -t 10.96.0.10:80 -s lc');
  expect(run.clock.nextIn).toBe(30_000);
  expect(kernel.counters.writes).toBe(0);
});

test('a question between two comparisons is answered by the objects of now', async () => {
  const { kernel, run } = await besideOurs();
  run.take(...listed([WEB, service('new', '10.96.0.11')], [slice('web', ['10.244.0.5', '10.244.0.6'])]));
  const { signal } = new AbortController();
  const [{ parts }, reply] = await Promise.all([
    run.shadow.answers.difference(signal),
    run.shadow.answers.service('default/new' as NamespacedName, (rules) => kernel.compareRules(rules)),
  ]);
  expect(parts.flatMap(({ commands }) => commands)).toContainEqual(
    expect.objectContaining({ op: expect.objectContaining({ kind: 'add-virtual-server' }) }),
  );
  expect(reply?.ports).toMatchObject([{ addresses: [{ at: '10.96.0.11:80', state: 'differs' }] }]);
});

test('a shadow waits for all lists', () => {
  const run = new Shadowing(new FakeKernel());
  run.take(...listed([WEB], []).slice(0, 2));
  expect(run.clock.nextIn).toBeUndefined();
});

describe('what differs is found, and nothing is written', () => {
  const CASES: readonly (readonly [string, Op, readonly string[]])[] = [
    [
      'a virtual server is missing',
      { kind: 'delete-virtual-server', id: ID },
      [
        'ipvsadm -A -t 10.96.0.10:80 -s lc',
        'ipvsadm -a -t 10.96.0.10:80 -r 10.244.0.6:8080 -m -w 1',
        'ipvsadm -a -t 10.96.0.10:80 -r 10.244.0.5:8080 -m -w 1',
      ],
    ],
    [
      'an entry is missing',
      { kind: 'delete-entry', set: plannedSet('CLUSTER-IP', 4, 1), entry: { type: 'hash:ip,port', ...ID } },
      ['ipset add KUBE-CLUSTER-IP 10.96.0.10,tcp:80'],
    ],
    [
      'an address is missing',
      { kind: 'unbind-address', address: address('10.96.0.10') },
      ['ip addr add 10.96.0.10/32 dev kube-ipvs0'],
    ],
    [
      'the other proxy drains a real server',
      { kind: 'add-real-server', id: ID, realServer: real('10.244.0.9', 0) },
      [],
    ],
  ];

  test.each(CASES)('%s', async (_name, op, commands) => {
    const { run, written } = await besideOurs((kernel) => kernel.put(op));
    expect(run.found).toEqual(commands);
    expect(written()).toBe(0);
  });

  test('a sysctl', async () => {
    const { run, written } = await besideOurs((kernel) => kernel.sysctls.set('net/ipv4/ip_forward', '0'), {
      ...NO_SETTINGS,
      sysctls: [['net/ipv4/ip_forward', '1']],
    });
    expect(run.found).toEqual(['sysctl -w net.ipv4.ip_forward=1']);
    expect(written()).toBe(0);
  });

  test('iptables rules', async () => {
    const { run, written } = await besideOurs((kernel) => kernel.flushRules(4));
    expect(run.found).toContain('iptables -t nat -N KUBE-SERVICES');
    expect(written()).toBe(0);
  });
});

test('a change that the other proxy programs in time is no difference', async () => {
  const { kernel, run } = await besideOurs();
  run.take({ kind: 'endpoint-slice', event: { type: 'applied', object: slice('web', ['10.244.0.5']) } });
  expect(run.clock.nextIn).toBe(SETTLE_MS);
  await run.compare();
  expect(run.found).toEqual([]);
  expect(run.clock.nextIn).toBe(SETTLE_MS);
  kernel.put({ kind: 'delete-real-server', id: ID, realServer: real('10.244.0.6', 1) });
  await run.compare();
  expect(run.found).toEqual([]);
  expect(run.clock.nextIn).toBe(30_000);
});

test('a change that the other proxy does not program is reported by the second comparison', async () => {
  const { run } = await besideOurs();
  run.take({ kind: 'endpoint-slice', event: { type: 'applied', object: slice('web', ['10.244.0.5']) } });
  await run.compare();
  await run.compare();
  expect(run.found).toEqual(['ipvsadm -d -t 10.96.0.10:80 -r 10.244.0.6:8080']);
});

test('a kernel that cannot be read is reported, and read again sooner than in the sync period', async () => {
  const { kernel, run } = await besideOurs();
  kernel.failMethod('getSets', 'ENOMEM');
  await run.compare();
  expect(run.failures).toEqual([expect.stringContaining('ENOMEM')]);
  expect(run.clock.nextIn).toBe(SETTLE_MS);
  kernel.recover();
  await run.compare();
  expect(run.reports).toHaveLength(2);
});

test('changes in a row do not make comparisons follow each other sooner', async () => {
  const { run } = await besideOurs();
  run.take({ kind: 'endpoint-slice', event: { type: 'applied', object: slice('web', ['10.244.0.5']) } });
  run.clock.advance(SETTLE_MS - 1);
  run.take({ kind: 'endpoint-slice', event: { type: 'applied', object: slice('web', ['10.244.0.6']) } });
  expect(run.clock.nextIn).toBe(1);
  await run.compare();
  run.shadow.kernelStateLost();
  expect(run.clock.nextIn).toBe(SETTLE_MS);
});

test('a stopped shadow compares no more', async () => {
  const { run } = await besideOurs();
  await run.shadow.stop();
  run.shadow.nodeAddressesChanged();
  expect(run.clock.nextIn).toBeUndefined();
});

test('what kube-proxy does differently is known', async () => {
  const { run } = await besideOurs((kernel) => {
    kernel.put({ kind: 'destroy-set', set: plannedSet('NODE-PORT-IP', 4, 0) });
    kernel.put({
      kind: 'add-entry',
      set: plannedSet('LOOP-BACK', 4, 0),
      entry: {
        type: 'hash:ip,port,ip',
        ...vsId('10.244.0.7', 8080),
        address2: address('10.244.0.7'),
      },
    });
  });
  run.take({
    kind: 'endpoint-slice',
    event: {
      type: 'applied',
      object: slice('web', ['10.244.0.5', '10.244.0.6', endpoint('10.244.0.7', { ready: false, serving: false })]),
    },
  });
  await run.compare();
  await run.compare();
  const known = (run.reports.at(-1) ?? []).map(({ command, known: name }) => [
    name,
    command.split(' ').slice(1, 3).join(' '),
  ]);
  expect(known).toEqual([['loop-back', 'del KUBE-LOOP-BACK']]);
});

/** A shadow after its first report, beside what `serve` leaves. */
async function besidePlane(
  mode: ProxyMode,
  plane: Plane,
  serve: (events: readonly SourceEvent[]) => Promise<void> = () => Promise.resolve(),
) {
  const events = listed([WEB], [slice('web', ['10.244.0.5', '10.244.0.6'])]);
  await serve(events);
  const before = plane.writes();
  const run = new Shadowing(plane.another(), NO_SETTINGS, { ...PLAN_CONFIG, ...MODE_PLANS[mode] });
  run.take(...events);
  await run.compare();
  await run.compare();
  expect(run.failures).toEqual([]);
  return { run, written: () => plane.writes() - before };
}

describe.each(Object.keys(PLANES).filter(isMode))('in %s mode', (mode) => {
  test('beside our own daemon, a shadow finds what is missing, and writes nothing', async () => {
    const plane = PLANES[mode]();
    const { run, written } = await besidePlane(mode, plane, async (events) => {
      await plane.kernel.prepare();
      await new Reconciling(plane.kernel, { plan: { ...PLAN_CONFIG, ...MODE_PLANS[mode] } }).settle(...events);
    });
    expect(run.reports).toEqual([[]]);
    expect(written()).toBe(0);
    await plane.kernel.apply(new Transaction([{ kind: 'delete-virtual-server', id: ID }]));
    const deleted = written();
    await run.compare();
    await run.compare();
    expect(new Set(run.reports.at(-1)?.map(({ service: of }) => of))).toEqual(new Set(['default/web']));
    expect(run.found.join()).toContain('10.244.0.6');
    expect(written()).toBe(deleted);
  });

  test('beside nothing, a shadow finds the rules and the Service missing, and writes nothing', async () => {
    const { run, written } = await besidePlane(mode, PLANES[mode]());
    const found = run.reports.at(-1) ?? [];
    expect(new Set(found.map(({ service: of }) => of))).toEqual(new Set([undefined, 'default/web']));
    expect(written()).toBe(0);
  });
});

test('beside tables of kube-proxy, a shadow knows all that it would write', async () => {
  const { run, written } = await besidePlane('nftables', nftablesPlane(await tablesOfKubeProxy()));
  expect(run.found[0]).toContain('delete table ip kube-proxy');
  expect(run.found.join()).toContain('10.96.0.10');
  expect(new Set(run.reports.at(-1)?.map(({ known }) => known))).toEqual(new Set(['other-table']));
  expect(written()).toBe(0);
});
