import { describe, expect, test } from '@jest/globals';
import type { Flow } from '../../../src/kernel/kernel.ts';
import { parseCidr } from '../../../src/net/cidr.ts';
import { DrainLedger } from '../../../src/diff/drain.ts';
import { Breather } from '../../../src/net/breather.ts';
import { namespacedName } from '../../../src/net/names.ts';
import { NodePlan, setKey } from '../../../src/plan/node-plan.ts';
import { changeOps } from '../../../src/reconcile/change-sync.ts';
import { SYSTEM_CLOCK } from '../../../src/reconcile/clock.ts';
import { Ownership } from '../../../src/reconcile/ownership.ts';
import { RetryQueue } from '../../../src/reconcile/retry-queue.ts';
import { SyncTimer, type Wanted } from '../../../src/reconcile/sync-timer.ts';
import { staleFlows } from '../../../src/reconcile/udp-clean-up.ts';
import type { Op } from '../../../src/state/op.ts';
import { virtualServerKey } from '../../../src/state/virtual-server.ts';
import { FakeClock } from '../../support/reconciling.ts';
import { address, portOf, real, vsId } from '../../support/state.ts';

describe('SyncTimer', () => {
  function timer(minPeriodMs: number): {
    clock: FakeClock;
    runs: [number, Wanted][];
    timer: SyncTimer;
    end: () => Promise<void>;
  } {
    const clock = new FakeClock();
    const runs: [number, Wanted][] = [];
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

  test('requests before and during a run become one more run, a full one if any asked for that', async () => {
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

  test('the pause is counted from the end of a run', async () => {
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

  test('a run that only the clock asked for is followed by no pause, one that was asked for as well is', async () => {
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

  test('an interlude takes what was asked for during the run, once and when its pause is over', async () => {
    const { clock, runs, timer: made, end } = timer(100);
    made.request('change');
    clock.advance(0);
    const taken: number[] = [];
    const interlude = (): Promise<void> =>
      made.interlude(async () => {
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

  test('beside what is under way, a request is served as soon as it is due; an end or a stop needs none', async () => {
    const { clock, timer: made, end } = timer(100);
    made.request('change');
    clock.advance(0);
    let taken = 0;
    const turn = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));
    const beside = (work: Promise<string>): Promise<string> =>
      made.beside(work, async () => {
        taken += 1;
        await turn();
      });
    const long = Promise.withResolvers<string>();
    const waited = beside(long.promise);
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
    await expect(beside(Promise.reject(new Error('failed')))).rejects.toThrow('failed');

    const longer = Promise.withResolvers<string>();
    const stopping = beside(longer.promise);
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

  test('wakes up by itself when the run asked for it, and never after stop', async () => {
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
  test('a set that is too small is grown once, not again by each entry that comes later', async () => {
    const plan = new NodePlan();
    const sizes = new Map([[setKey('CLUSTER-IP', 4), 4]]);
    const kinds = async (host: number): Promise<string[]> => {
      const entry = { type: 'hash:ip,port', ...vsId(`10.96.0.${host}`, 80) } as const;
      plan.replace(namespacedName('default', `s${host}`), {
        service: namespacedName('default', `s${host}`),
        virtualServers: [],
        addresses: [],
        entries: [{ role: 'CLUSTER-IP', family: 4, entry }],
        udp: [],
        noLocalEndpoints: { internal: false, external: false },
        warnings: [],
      });
      const changes = plan.takeChanges();
      const { ops } = await changeOps(plan, changes, new Map(), sizes, new DrainLedger(0), 0, new Breather());
      return ops.map(({ kind }) => kind);
    };
    expect(await kinds(1)).toEqual(['grow-set']);
    expect(await kinds(2)).toEqual(['add-entry']);
  });
});

describe('RetryQueue', () => {
  const bind: Op = { kind: 'bind-address', address: address('10.0.0.1') };
  const unbind: Op = { kind: 'unbind-address', address: address('10.0.0.1') };

  test('doubles the delay of an object up to the longest, whatever is tried on it', () => {
    const queue = new RetryQueue(5_000);
    let now = 0;
    const delays = [bind, unbind, bind, bind].map((op) => {
      queue.failed(op, now);
      const delay = (queue.nextDue() ?? NaN) - now;
      now += delay;
      expect(queue.takeDue(now - 1)).toEqual([]);
      expect(queue.takeDue(now)).toHaveLength(1);
      return delay;
    });
    expect(delays).toEqual([1_000, 2_000, 4_000, 5_000]);
  });

  test('what was tried again and did not fail is mended; what waits still waits', () => {
    const queue = new RetryQueue(30_000);
    queue.failed(bind, 0);
    queue.failed({ kind: 'delete-virtual-server', id: vsId('10.0.0.2', 80) }, 500);
    queue.takeDue(1_000);
    queue.settle();
    expect([queue.size, queue.attempts(bind), queue.nextDue()]).toEqual([1, 0, 1_500]);
  });

  test('a sync that broke off leaves what it tried due again', () => {
    const queue = new RetryQueue(30_000);
    queue.failed(bind, 0);
    queue.takeDue(1_000);
    expect(queue.nextDue()).toBeUndefined();
    queue.reschedule(1_000);
    expect(queue.nextDue()).toBe(2_000);
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
  const ownership = new Ownership(sets, [address('10.96.0.1')], [parseCidr('10.96.7.0/24')!]);

  test.each([
    ['an address on kube-ipvs0', vsId('10.96.0.1', 80), true],
    ['an entry of a set', vsId('203.0.113.1', 443), true],
    ['another port of it', vsId('203.0.113.1', 444), false],
    ['another protocol of it', vsId('203.0.113.1', 443, 'UDP'), false],
    ['a node port on any address', vsId('fd00::9', 30_053, 'UDP'), true],
    ['a node port of another protocol', vsId('fd00::9', 30_053), false],
    ['a health check port', vsId('192.168.1.1', 32_000), false],
    ['a stranger', vsId('192.168.1.1', 80), false],
  ])('%s', (_what, id, ours) => expect(ownership.owns(id)).toBe(ours));

  test('excluded CIDRs are never ours', () => {
    const bound = new Ownership([], [address('10.96.7.1')], [parseCidr('10.96.7.0/24')!]);
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

  test.each([
    ['answered by a serving endpoint', flow('10.96.0.10', 53, '10.244.0.1'), false],
    ['answered by a pod that is gone', flow('10.96.0.10', 53, '10.244.0.9'), true],
    ['answered from another port', flow('10.96.0.10', 53, '10.244.0.1', 53), true],
    ['never translated (black hole)', flow('10.96.0.10', 53, '10.96.0.10', 53), true],
    ['to another port of the address', flow('10.96.0.10', 54, '10.244.0.9'), false],
    ['to a service without endpoints', flow('10.96.0.11', 53, '10.244.0.9'), false],
    ['of somebody else', flow('8.8.8.8', 53, '8.8.8.8', 53), false],
  ])('%s', (_what, one, stale) => {
    const planned = new Map([dns, empty].map(({ id, answering }) => [virtualServerKey(id), answering]));
    const steps = staleFlows(
      Array.from({ length: 1_000 }, () => one),
      (key) => planned.get(key) ?? [],
    );
    let step = steps.next();
    while (step.done !== true) step = steps.next();
    expect(step.value).toHaveLength(stale ? 1_000 : 0);
  });
});

test('the system clock: what is due at once comes with the next turn, in order, and can be taken back', async () => {
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
