import { describe, expect, test } from '@jest/globals';
import fc from 'fast-check';
import { FakeKernel } from '../fake-kernel/fake-kernel.ts';
import type { SourceEvent } from '../../src/kube/objects/source.ts';
import { type NamespacedName, namespacedName } from '../../src/base/service/names.ts';
import type { ServicePlan } from '../../src/plan/service-plan.ts';
import { type Op, formatOp } from '../../src/state/op.ts';
import { virtualServerKey } from '../../src/state/virtual-server.ts';
import { historyAsScenario } from '../scenario/history-file.ts';
import { afterRead } from '../support/after-read.ts';
import { anyEvent } from '../support/histories.ts';
import { kernelText } from '../support/kernel-text.ts';
import { listed } from '../support/objects.ts';
import { Reconciling } from '../support/reconciling.ts';
import { address } from '../support/state.ts';

async function newKernel(): Promise<FakeKernel> {
  const kernel = new FakeKernel();
  await kernel.prepare();
  kernel.setNodeAddresses(
    ['192.168.9.1', 'fd00:9::1'].map((text) => ({
      address: address(text),
      prefix: 24,
      interfaceName: 'eth0',
      tentative: false,
    })),
  );
  return kernel;
}

/** What the kernel must hold after these events, computed from nothing. */
async function fromScratch(events: readonly SourceEvent[]): Promise<string> {
  const kernel = await newKernel();
  await new Reconciling(kernel).take(...listed([], []), ...events);
  return kernelText(kernel);
}

const histories = (maxLength: number): fc.Arbitrary<SourceEvent[]> => fc.array(anyEvent, { minLength: 1, maxLength });

/** Checks a property of histories; one that fails is shrunk and shown as a scenario file, to be kept as one. */
async function holds(
  history: fc.Arbitrary<SourceEvent[]>,
  property: (events: readonly SourceEvent[]) => Promise<void>,
  numRuns: number,
  seed?: number,
): Promise<void> {
  const result = await fc.check(fc.asyncProperty(history, property), {
    numRuns,
    ...(seed === undefined ? {} : { seed }),
  });
  if (!result.failed) return;
  const [events] = result.counterexample ?? [[]];
  throw new Error(
    `${String(result.errorInstance)}\n\nseed ${result.seed}; as a scenario file:\n\n${historyAsScenario(events)}`,
  );
}

function serviceOf({ kind, event }: SourceEvent): NamespacedName {
  if (event.type === 'replaced') throw new Error('histories have single changes only');
  if (kind === 'service') {
    const { namespace, name } = event.type === 'applied' ? event.object.meta : event.object;
    return namespacedName(namespace, name);
  }
  const labels = event.type === 'applied' ? event.object.meta.labels : {};
  return namespacedName('default', labels['kubernetes.io/service-name'] ?? '');
}

/** Virtual servers that one of the plans has. */
function owned(...plans: readonly (ServicePlan | undefined)[]): ReadonlySet<unknown> {
  return new Set(plans.flatMap((plan) => plan?.virtualServers ?? []).map((p) => virtualServerKey(p.virtualServer)));
}

function virtualServerOf(op: Op): unknown {
  if ('virtualServer' in op) return virtualServerKey(op.virtualServer);
  return 'id' in op ? virtualServerKey(op.id) : undefined;
}

describe('for random histories of objects', () => {
  test('syncing change by change gives the same kernel state as starting from scratch, and a full check finds no drift', async () => {
    const property = async (events: readonly SourceEvent[]): Promise<void> => {
      const kernel = await newKernel();
      const run = new Reconciling(kernel);
      await run.take(...listed([], []));
      for (const event of events) await run.settle(event);
      expect(await kernelText(kernel)).toBe(await fromScratch(events));
      const report = await run.pass(30_000);
      expect([...report.operations.keys()]).toEqual([]);
    };
    await holds(histories(40), property, 200);
  });

  test('syncing change by change without a read gives the same state, once what drained was deleted', async () => {
    let unread = 0;
    const property = async (events: readonly SourceEvent[]): Promise<void> => {
      const kernel = await newKernel();
      const run = new Reconciling(kernel, { readUpTo: 0 });
      await run.take(...listed([], []));
      for (const event of events) {
        const reads = kernel.calls.get('getRealServers');
        kernel.applied.length = 0;
        await run.settle(event);
        const isChanged = kernel.applied.some(({ kind }) => kind.endsWith('-real-server'));
        if (isChanged && kernel.calls.get('getRealServers') === reads) unread += 1;
      }
      if ((run.reports.at(-1)?.draining ?? 0) > 0) await run.pass(5_000);
      expect(await kernelText(kernel)).toBe(await fromScratch(events));
      const report = await run.pass(30_000);
      expect([...report.operations.keys()]).toEqual([]);
    };
    await holds(histories(40), property, 200);
    expect(unread).toBeGreaterThan(0);
  });

  test('a change of one service touches no virtual server of another', async () => {
    const property = async (events: readonly SourceEvent[]): Promise<void> => {
      const kernel = await newKernel();
      const run = new Reconciling(kernel);
      await run.take(...listed([], []));
      for (const event of events) {
        const name = serviceOf(event);
        const before = run.reconciler.plan.service(name);
        kernel.applied.length = 0;
        await run.settle(event);
        const own = owned(before, run.reconciler.plan.service(name));
        const foreign = kernel.applied.filter((op) => {
          const key = virtualServerOf(op);
          return key !== undefined && !own.has(key);
        });
        expect(foreign.map(formatOp)).toEqual([]);
      }
    };
    await holds(histories(40), property, 150);
  });

  test('changes during a full check, at any step of it, are applied, and none is taken for drift', async () => {
    const property = async (events: readonly SourceEvent[]): Promise<void> => {
      const kernel = await newKernel();
      const run = new Reconciling(kernel);
      const waiting = [...events];
      await run.take(...listed([], []), ...waiting.splice(0, Math.ceil(waiting.length / 3)));
      const before = run.reports.length;
      afterRead(kernel, () => {
        const next = waiting.shift();
        if (next === undefined) return;
        run.cluster.apply(next);
        run.reconciler.clusterChanged();
      });
      // One check takes in a few of them only.
      while (waiting.length > 0) await run.pass(30_000);
      // Whatever came last may still wait.
      for (let more = 0; more < 3; more++) await run.pass(30_000);
      expect(await kernelText(kernel)).toBe(await fromScratch(events));
      const drift = run.reports.slice(before).flatMap((report) => report.drift);
      expect(drift).toEqual([]);
    };
    await holds(histories(40), property, 200);
  });

  test('after a kill at any operation of any sync, a restart makes the kernel equal to the plan', async () => {
    for (const operations of [0, 1, 2, 3, 5, 8, 13, 21, 34, 55]) {
      const property = async (events: readonly SourceEvent[]): Promise<void> => {
        const kernel = await newKernel();
        const before = events.slice(0, Math.ceil(events.length / 2));
        const victim = new Reconciling(kernel);
        await victim.take(...listed([], []), ...before.slice(0, -1));
        kernel.crashAfter(operations);
        for (const event of before.slice(-1)) await victim.take(event);
        // Nothing of the victim survives but what the kernel holds.
        kernel.recover();
        const heir = new Reconciling(kernel);
        await heir.take(...listed([], []), ...events);
        expect(await kernelText(kernel)).toBe(await fromScratch(events));
      };
      await holds(histories(16), property, 25);
    }
  });
});

describe('a failing history', () => {
  test('a failing history is shrunk and printed as a scenario file that can be read back', async () => {
    const refuse = async (events: readonly SourceEvent[]): Promise<void> => {
      await Promise.resolve();
      expect(events.some(({ kind, event }) => kind === 'service' && event.type === 'applied')).toBe(false);
    };
    const error: unknown = await holds(histories(20), refuse, 100, 7).catch((thrown: unknown) => thrown);
    const text = String(error);
    expect(text).toContain('-- objects --');
    expect(text.match(/kind: Service/g)).toHaveLength(1);
    expect(text.match(/^-- (objects|step: .*) --$/gm)?.length).toBeLessThanOrEqual(2);
  });
});
