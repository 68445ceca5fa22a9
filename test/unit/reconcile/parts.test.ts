import { describe, expect, test } from '@jest/globals';
import type { Flow } from '../../../src/kernel/kernel.ts';
import { parseCidr } from '../../../src/base/cidr.ts';
import { DrainLedger } from '../../../src/diff/drain.ts';
import { Yielder } from '../../../src/base/yielder.ts';
import { namespacedName } from '../../../src/base/service/names.ts';
import { NodePlan, setKey } from '../../../src/plan/node/node-plan.ts';
import { changeOps } from '../../../src/reconcile/sync/change-ops.ts';
import { SYSTEM_CLOCK } from '../../../src/reconcile/timing/clock.ts';
import { Ownership } from '../../../src/reconcile/node/ownership.ts';
import { RetryQueue } from '../../../src/reconcile/sync/retry-queue.ts';
import { SyncTimer, type RequestedSync } from '../../../src/reconcile/timing/sync-timer.ts';
import { staleFlows } from '../../../src/reconcile/sync/udp-clean-up.ts';
import type { Op } from '../../../src/state/op.ts';
import type { OpFailure } from '../../../src/state/outcome.ts';
import { virtualServerKey } from '../../../src/state/virtual-server.ts';
import { FakeClock, PLAN_CONFIG } from '../../support/reconciling.ts';
import { address, portOf, real, vsId } from '../../support/state.ts';
import { addingOrder } from '../../../src/diff/adding-order.ts';

describe('SyncTimer', () => {
  function timer(minPeriodMs: number): {
    clock: FakeClock;
    runs: [number, RequestedSync][];
    timer: SyncTimer;
    end: () => Promise<void>;
  } {
    const clock = new FakeClock();
    const runs: [number, RequestedSync][] = [];
    let finish = (): void => undefined;
    const start = clock.now();
    const made = new SyncTimer({
      clock,
      minPeriodMs,
      run: async (wanted) => {
        runs.push([clock.now() - start, wanted]);
        await new Promise<void>((resolve) => (finish = resolve));
        return { wanted: 'full', inMs: 30_000 };
      },
    });
    return {
      clock,
      runs,
      timer: made,
      end: async () => {
        finish();
        await new Promise((resolve) => setImmediate(resolve));
      },
    };
  }

  test('sync requests before and during a run are combined into one run, a full one if any of them is full', async () => {
    const { clock, runs, timer: made, end } = timer(0);
    made.request('change');
    made.request('change');
    clock.advance(0);
    made.request('full');
    made.request('change');
    clock.advance(5);
    expect(runs).toEqual([[0, 'change']]);
    await end();
    clock.advance(0);
    expect(runs).toEqual([
      [0, 'change'],
      [5, 'full'],
    ]);
  });

  test('the minimum sync period starts at the end of a run', async () => {
    const { clock, runs, timer: made, end } = timer(1_000);
    made.request('change');
    clock.advance(0);
    clock.advance(300);
    await end();
    made.request('change');
    clock.advance(999);
    expect(runs).toHaveLength(1);
    clock.advance(1);
    expect(runs[1]).toEqual([1_300, 'change']);
  });

  test('only a requested sync delays the next one', async () => {
    const { clock, runs, timer: made, end } = timer(1_000);
    made.request('change');
    clock.advance(0);
    await end();
    clock.advance(30_000);
    await end();
    clock.advance(1);
    made.request('change');
    clock.advance(0);
    expect(runs.slice(1)).toEqual([
      [30_000, 'full'],
      [30_001, 'change'],
    ]);
    await end();
    made.request('change');
    clock.advance(999);
    expect(runs).toHaveLength(3);
    clock.advance(1);
    expect(runs[3]).toEqual([31_001, 'change']);
  });

  test('runPendingBetweenSteps runs what was requested during the run, once and not before it is due', async () => {
    const { clock, runs, timer: made, end } = timer(100);
    made.request('change');
    clock.advance(0);
    const taken: number[] = [];
    const interlude = (): Promise<void> =>
      made.runPendingBetweenSteps(async () => {
        taken.push(clock.now());
        await Promise.resolve();
      });
    await interlude();
    expect(taken).toEqual([]);
    made.request('change');
    await interlude();
    await interlude();
    expect(taken).toHaveLength(1);
    made.request('change');
    await interlude();
    expect(taken).toHaveLength(1);
    clock.advance(100);
    await interlude();
    expect(taken).toHaveLength(2);
    // Nothing is left to be run.
    await end();
    clock.advance(1_000);
    expect(runs).toHaveLength(1);
  });

  test('awaitWhileServing serves a request as soon as it is due, and ends with its promise or a stop', async () => {
    const { clock, timer: made, end } = timer(100);
    made.request('change');
    clock.advance(0);
    let taken = 0;
    const turn = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));
    const awaitWhileServing = (work: Promise<string>): Promise<string> =>
      made.awaitWhileServing(work, async () => {
        taken += 1;
        await turn();
      });
    const long = Promise.withResolvers<string>();
    const waited = awaitWhileServing(long.promise);
    for (const due of [0, 100]) {
      made.request('change');
      clock.advance(due - 1);
      await turn();
      const before = taken;
      clock.advance(1);
      await turn();
      await turn();
      expect(taken).toBe(before + 1);
    }
    long.resolve('done');
    expect(await waited).toBe('done');
    await expect(awaitWhileServing(Promise.reject(new Error('failed')))).rejects.toThrow('failed');

    const longer = Promise.withResolvers<string>();
    const stopping = awaitWhileServing(longer.promise);
    const stopped = made.stop();
    made.request('change');
    clock.advance(1_000);
    await turn();
    expect(taken).toBe(2);
    longer.resolve('done');
    await stopping;
    await end();
    await stopped;
  });

  test('the sync timer starts the next run at the time that the last one returned, and none after stop', async () => {
    const { clock, runs, timer: made, end } = timer(0);
    made.request('change');
    clock.advance(0);
    await end();
    clock.advance(30_000);
    expect(runs[1]).toEqual([30_000, 'full']);
    const stopped = made.stop();
    made.request('change');
    await end();
    await stopped;
    clock.advance(120_000);
    expect(runs).toHaveLength(2);
  });
});

describe('changeOps', () => {
  test('a set that is too small is grown once, not again for each later entry', async () => {
    const plan = new NodePlan();
    const sizes = new Map([[setKey('CLUSTER-IP', 4), 4]]);
    const kinds = async (host: number): Promise<string[]> => {
      const entry = { type: 'hash:ip,port', ...vsId(`10.96.0.${host}`, 80) } as const;
      plan.replace(namespacedName('default', `s${host}`), {
        service: namespacedName('default', `s${host}`),
        virtualServers: [],
        addresses: [],
        closed: [],
        hairpins: [],
        entries: [{ role: 'CLUSTER-IP', family: 4, entry }],
        udp: [],
        noLocalEndpoints: { internal: [], external: [] },
        warnings: [],
      });
      const changes = plan.takeChanges();
      const context = { order: addingOrder(PLAN_CONFIG), ledger: new DrainLedger(0), now: 0 };
      const tx = await changeOps(plan, changes, new Map(), sizes, context, new Yielder());
      return [...tx].map(({ kind }) => kind);
    };
    expect(await kinds(1)).toEqual(['grow-set']);
    expect(await kinds(2)).toEqual(['add-entry']);
  });
});

describe('RetryQueue', () => {
  const bind: Op = { kind: 'bind-address', address: address('10.0.0.1') };
  const unbind: Op = { kind: 'unbind-address', address: address('10.0.0.1') };
  const failure = (op: Op, code = 'ENOMEM'): OpFailure => ({ op, errno: 12, code, text: '' });

  test('the retry queue doubles the delay of an object up to the maximum, for all operations on it', () => {
    const queue = new RetryQueue(5_000);
    let now = 0;
    const delays = [bind, unbind, bind, bind].map((op) => {
      queue.failed(failure(op), now);
      const delay = queue.dueAt - now;
      now += delay;
      expect(queue.due(now - 1)).toEqual([]);
      for (const due of queue.due(now)) queue.begin(due);
      return delay;
    });
    expect(delays).toEqual([1_000, 2_000, 4_000, 5_000]);
  });

  test('settle removes attempted operations that did not fail, and keeps those that are not due yet', () => {
    const queue = new RetryQueue(30_000);
    queue.failed(failure(bind), 0);
    const other: Op = { kind: 'delete-virtual-server', id: vsId('10.0.0.2', 80) };
    queue.failed(failure(other), 500);
    queue.begin(bind);
    queue.settle(queue.due(1_000));
    expect([queue.attempts(bind), queue.attempts(other)]).toEqual([1, 1]);
    queue.settle([bind]);
    expect([queue.attempts(bind), queue.attempts(other), queue.dueAt]).toEqual([0, 1, 1_500]);
  });

  test('of each object, the last failure is kept', () => {
    const queue = new RetryQueue(30_000);
    queue.failed(failure(bind), 0);
    queue.begin(bind);
    queue.failed(failure(unbind, 'EADDRNOTAVAIL'), 1_000);
    expect(queue.failing()).toMatchObject([{ failure: { op: unbind, code: 'EADDRNOTAVAIL' }, attempts: 2 }]);
  });

  test('after an aborted sync its attempts are due again', () => {
    const queue = new RetryQueue(30_000);
    queue.failed(failure(bind), 0);
    queue.begin(bind);
    expect(queue.dueAt).toBe(Infinity);
    queue.reschedule([bind], 1_000);
    expect(queue.dueAt).toBe(2_000);
  });

  test('the back-off counts attempts, not operations, and not the attempts that changes cause', () => {
    const queue = new RetryQueue(30_000);
    const add = (host: number): Op => ({
      kind: 'add-real-server',
      id: vsId('10.0.0.2', 80),
      realServer: real(`10.244.0.${host}`, 1),
    });
    const six = [1, 2, 3, 4, 5, 6].map(add);
    expect(six.map((op) => queue.failed(failure(op), 0))).toEqual([true, false, false, false, false, false]);
    expect(queue.dueAt).toBe(1_000);
    for (const op of six) queue.failed(failure(op), 400);
    expect([queue.attempts(add(9)), queue.dueAt]).toEqual([1, 1_000]);
    queue.begin(add(1));
    for (const op of six) queue.failed(failure(op), 1_000);
    expect([queue.attempts(add(9)), queue.dueAt]).toEqual([2, 3_000]);
  });
});

describe('Ownership', () => {
  const sets = [
    {
      name: 'KUBE-LOAD-BALANCER',
      entries: [
        { type: 'hash:ip,port' as const, address: address('203.0.113.1'), protocol: 'TCP' as const, port: portOf(443) },
      ],
    },
    { name: 'KUBE-6-NODE-PORT-UDP', entries: [{ type: 'bitmap:port' as const, port: portOf(30_053) }] },
    { name: 'KUBE-HEALTH-CHECK-NODE-PORT', entries: [{ type: 'bitmap:port' as const, port: portOf(32_000) }] },
  ];
  const evidence = {
    sets,
    boundAddresses: [address('10.96.0.1')],
    interfaceAddresses: [address('192.168.1.1'), address('fd00::9'), address('127.0.0.1')],
    excluded: [parseCidr('10.96.7.0/24')!],
  };
  const marks = {
    name: 'KUBE-6-NODE-PORT-IP',
    entries: [{ type: 'hash:ip' as const, address: address('fd00::7') }],
  };

  test.each([
    ['an address on kube-ipvs0', vsId('10.96.0.1', 80), true],
    ['an entry of a set', vsId('203.0.113.1', 443), true],
    ['another port of it', vsId('203.0.113.1', 444), false],
    ['another protocol of it', vsId('203.0.113.1', 443, 'UDP'), false],
    ['a NodePort at an address of the node, which nothing marks (kube-proxy)', vsId('fd00::9', 30_053, 'UDP'), true],
    ['a NodePort number at an address of nobody (keepalived in BACKUP)', vsId('fd00::7', 30_053, 'UDP'), false],
    ['a node port of another protocol', vsId('fd00::9', 30_053), false],
    ['a health check port', vsId('192.168.1.1', 32_000), false],
    ['a stranger', vsId('192.168.1.1', 80), false],
  ])('%s', (_what, id, ours) => expect(new Ownership(evidence).owns(id)).toBe(ours));

  test.each([
    ['an address that has left the node', vsId('fd00::7', 30_053, 'UDP'), true],
    ['another port there', vsId('fd00::7', 30_054, 'UDP'), false],
    ['an address of the node that serves no NodePorts', vsId('fd00::9', 30_053, 'UDP'), false],
  ])('where the addresses of NodePorts are marked: %s', (_what, id, ours) => {
    expect(new Ownership({ ...evidence, interfaceAddresses: [], sets: [...sets, marks] }).owns(id)).toBe(ours);
  });

  test('excluded CIDRs are never ours', () => {
    const bound = new Ownership({ ...evidence, boundAddresses: [address('10.96.7.1')] });
    expect(bound.owns(vsId('10.96.7.1', 80))).toBe(false);
  });
});

describe('staleFlows', () => {
  const flow = (destination: string, port: number, replySource: string, replyPort = 5353): Flow => ({
    family: 4,
    protocol: 'UDP',
    source: address('10.244.0.7'),
    sourcePort: portOf(40_000),
    destination: address(destination),
    destinationPort: portOf(port),
    replySource: address(replySource),
    replySourcePort: portOf(replyPort),
  });
  const dns = { id: vsId('10.96.0.10', 53, 'UDP'), answering: [real('10.244.0.1', 1, 5353)] };
  const empty = { id: vsId('10.96.0.11', 53, 'UDP'), answering: [] };
  const removed = new Set([vsId('10.96.0.12', 53, 'UDP'), dns.id].map(virtualServerKey));

  test.each([
    ['answered by a serving endpoint', flow('10.96.0.10', 53, '10.244.0.1'), false],
    ['answered by a pod that is gone', flow('10.96.0.10', 53, '10.244.0.9'), true],
    ['answered from another port', flow('10.96.0.10', 53, '10.244.0.1', 53), true],
    ['never translated (black hole)', flow('10.96.0.10', 53, '10.96.0.10', 53), true],
    ['to another port of the address', flow('10.96.0.10', 54, '10.244.0.9'), false],
    ['to a service without endpoints', flow('10.96.0.11', 53, '10.244.0.9'), true],
    ['to a virtual server that was removed', flow('10.96.0.12', 53, '10.244.0.1'), true],
    ['to another port of one that was removed', flow('10.96.0.12', 54, '10.244.0.1'), false],
    ['of somebody else', flow('8.8.8.8', 53, '8.8.8.8', 53), false],
  ])('%s', (_what, one, stale) => {
    const planned = new Map([dns, empty].map(({ id, answering }) => [virtualServerKey(id), answering]));
    const steps = staleFlows(
      Array.from({ length: 1_000 }, () => one),
      (key) => planned.get(key),
      removed,
    );
    let step = steps.next();
    while (step.done !== true) step = steps.next();
    expect(step.value).toHaveLength(stale ? 1_000 : 0);
  });
});

test('the system clock: timers without delay fire in the next turn of the event loop, in order, and can be cancelled', async () => {
  const order: string[] = [];
  const { promise, resolve } = Promise.withResolvers<void>();
  SYSTEM_CLOCK.setTimer(() => order.push('due'), 0);
  SYSTEM_CLOCK.setTimer(() => order.push('never'), 0)();
  SYSTEM_CLOCK.setTimer(() => order.push('never'), 5)();
  SYSTEM_CLOCK.setTimer(() => order.push('overdue'), -7);
  setImmediate(() => order.push('turn'));
  SYSTEM_CLOCK.setTimer(resolve, 20);
  expect(order).toEqual([]);
  await promise;
  expect(order).toEqual(['due', 'overdue', 'turn']);
});
