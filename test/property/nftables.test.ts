import { describe, expect, jest, test } from '@jest/globals';
import fc from 'fast-check';
import type { SourceEvent } from '../../src/kube/objects/source.ts';
import { FakeKernel } from '../fake-kernel/fake-kernel.ts';
import { anyEvent } from '../support/histories.ts';
import { kernelText } from '../support/kernel-text.ts';
import { NODE, nftInMemory, translating } from '../support/nft-in-memory.ts';
import { listed } from '../support/objects.ts';

jest.setTimeout(120_000);

async function wanted(events: readonly SourceEvent[]): Promise<string> {
  const fake = new FakeKernel();
  fake.schedulers.add('random');
  await fake.prepare();
  fake.setNodeAddresses(NODE);
  await translating(fake).take(...listed([], []), ...events);
  return kernelText(fake);
}

const DELETION: ReadonlySet<string> = new Set(['flush-chain', 'delete-chain', 'delete-set', 'delete-elements']);

describe('nftables mode under random histories', () => {
  test('each change ends in what the plan wants, every reference is valid, and a full check writes nothing', async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(anyEvent, { minLength: 1, maxLength: 30 }), async (events) => {
        const { kernel, table } = nftInMemory();
        await kernel.prepare();
        const run = translating(kernel);
        await run.take(...listed([], []));
        for (const event of events) expect((await run.settle(event)).failures).toEqual([]);
        expect(await kernelText(kernel)).toBe(await wanted(events));
        const before = table.committed.length;
        const report = await run.pass(30_000);
        expect(report).toMatchObject({ kind: 'full', ok: true });
        expect([...report.operations.keys()]).toEqual([]);
        // But what was of use is deleted.
        const written = table.committed.slice(before).flat();
        expect(written.filter(({ kind }) => !DELETION.has(kind))).toEqual([]);
        const after = table.committed.length;
        await run.pass(30_000);
        expect(table.committed).toHaveLength(after);
        await run.reconciler.stop();
      }),
      { numRuns: 40 },
    );
  });
});
