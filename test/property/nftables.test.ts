import { describe, expect, jest, test } from '@jest/globals';
import fc from 'fast-check';
import type { Kernel } from '../../src/kernel/kernel.ts';
import { NodeKernel } from '../../src/kernel/linux/node-kernel.ts';
import { nftablesKernelOf } from '../../src/kernel/nftables/nftables-kernel.ts';
import type { SourceEvent } from '../../src/kube/objects/source.ts';
import { FakeKernel } from '../fake-kernel/fake-kernel.ts';
import { FakeNftTable } from '../fake-kernel/fake-nft-table.ts';
import { anyEvent } from '../support/histories.ts';
import { kernelText } from '../support/kernel-text.ts';
import { listed } from '../support/objects.ts';
import { PLAN_CONFIG, Reconciling, TestLog } from '../support/reconciling.ts';
import { address } from '../support/state.ts';

jest.setTimeout(120_000);

const NODE = ['192.168.9.1', 'fd00:9::1'].map((text) => ({
  address: address(text),
  prefix: 24,
  interfaceName: 'eth0',
  tentative: false,
}));

function reconciling(kernel: Kernel): Reconciling {
  return new Reconciling(kernel, { plan: { ...PLAN_CONFIG, scheduler: 'random', bindAddresses: false } }, []);
}

/** The tables of nftables mode in memory, on a node with these addresses and no connections. */
function inMemory(): { readonly kernel: Kernel; readonly table: FakeNftTable } {
  const table = new FakeNftTable();
  const node = new NodeKernel({ log: new TestLog() });
  const kernel = nftablesKernelOf(node, table);
  Object.assign(kernel, {
    getNodeAddresses: () => Promise.resolve(NODE),
    getUdpFlows: () => Promise.resolve([]),
  });
  return { kernel, table };
}

async function wanted(events: readonly SourceEvent[]): Promise<string> {
  const fake = new FakeKernel();
  fake.schedulers.add('random');
  await fake.prepare();
  fake.setNodeAddresses(NODE);
  await reconciling(fake).take(...listed([], []), ...events);
  return kernelText(fake);
}

const DELETION = new Set(['flush-chain', 'delete-chain']);

describe('nftables mode under random histories', () => {
  test('each change ends in what the plan wants, every reference is valid, and a full check writes nothing', async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(anyEvent, { minLength: 1, maxLength: 30 }), async (events) => {
        const { kernel, table } = inMemory();
        await kernel.prepare();
        const run = reconciling(kernel);
        await run.take(...listed([], []));
        for (const event of events) expect((await run.settle(event)).failures).toEqual([]);
        expect(await kernelText(kernel)).toBe(await wanted(events));
        const before = table.committed.length;
        const report = await run.pass(30_000);
        expect(report).toMatchObject({ kind: 'full', ok: true });
        expect([...report.operations.keys()]).toEqual([]);
        // But chains that were of use are deleted.
        for (const messages of table.committed.slice(before))
          expect(new Set(messages.map(({ kind }) => kind))).toEqual(DELETION);
        const after = table.committed.length;
        await run.pass(30_000);
        expect(table.committed).toHaveLength(after);
        await run.reconciler.stop();
      }),
      { numRuns: 40 },
    );
  });
});
