import { describe, expect, jest, test } from '@jest/globals';
import fc from 'fast-check';
import { iptablesKernelOf } from '../../src/kernel/iptables-mode/iptables-kernel.ts';
import type { Kernel } from '../../src/kernel/kernel.ts';
import { NodeKernel } from '../../src/kernel/linux/node-kernel.ts';
import type { SourceEvent } from '../../src/kube/objects/source.ts';
import { IPTABLES_MODE_PLAN } from '../../src/plan/iptables-mode-plan.ts';
import { FakeIptables } from '../fake-kernel/fake-iptables.ts';
import { FakeKernel } from '../fake-kernel/fake-kernel.ts';
import { anyEvent } from '../support/histories.ts';
import { kernelText } from '../support/kernel-text.ts';
import { listed } from '../support/objects.ts';
import { PLAN_CONFIG, Reconciling, TestLog } from '../support/reconciling.ts';
import { address } from '../support/state.ts';

jest.setTimeout(120_000);

const NODE = ['192.168.9.1', '192.168.9.2', 'fd00:9::1'].map((text) => ({
  address: address(text),
  prefix: 24,
  interfaceName: 'eth0',
  tentative: false,
}));

function reconciling(kernel: Kernel): Reconciling {
  return new Reconciling(kernel, { plan: { ...PLAN_CONFIG, ...IPTABLES_MODE_PLAN } }, []);
}

/** A kernel of iptables mode on a node with these addresses and no connections. */
function kernelOf(programs: FakeIptables): Kernel {
  const kernel = iptablesKernelOf(new NodeKernel({ log: new TestLog() }), programs, 0);
  return Object.assign(kernel, {
    getNodeAddresses: () => Promise.resolve(NODE),
    getUdpFlows: () => Promise.resolve([]),
  });
}

async function wanted(events: readonly SourceEvent[]): Promise<string> {
  const fake = new FakeKernel();
  fake.schedulers.add('random');
  await fake.prepare();
  fake.setNodeAddresses(NODE);
  await reconciling(fake).take(...listed([], []), ...events);
  return kernelText(fake);
}

describe('iptables mode under random histories', () => {
  test('each change ends in what the plan wants, as another process reads it, and a full check writes nothing', async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(anyEvent, { minLength: 1, maxLength: 30 }), async (events) => {
        const programs = new FakeIptables();
        const kernel = kernelOf(programs);
        await kernel.prepare();
        const run = reconciling(kernel);
        await run.take(...listed([], []));
        for (const event of events) expect((await run.settle(event)).failures).toEqual([]);
        expect(await kernelText(kernelOf(programs))).toBe(await wanted(events));
        expect(await kernelText(kernel)).toBe(await wanted(events));
        const before = programs.scripts.length;
        const report = await run.pass(30_000);
        expect(report).toMatchObject({ kind: 'full', ok: true });
        expect([...report.operations.keys()]).toEqual([]);
        expect(programs.scripts).toHaveLength(before);
        await run.reconciler.stop();
      }),
      { numRuns: 40 },
    );
  });
});
