import { describe, expect, jest, test } from '@jest/globals';
import fc from 'fast-check';
import type { SourceEvent } from '../../src/kube/objects/source.ts';
import { FakeIptables } from '../fake-kernel/fake-iptables.ts';
import { FakeKernel } from '../fake-kernel/fake-kernel.ts';
import { FakeNftTable } from '../fake-kernel/fake-nft-table.ts';
import { type Plane, iptablesPlane, nftablesPlane } from '../fake-kernel/planes.ts';
import { wishes } from '../faults/play.ts';
import { anyEvent } from '../support/histories.ts';
import { kernelText } from '../support/kernel-text.ts';
import { listed } from '../support/objects.ts';
import { NODE, reconcilingIn, startOn } from '../support/on-plane.ts';

jest.setTimeout(600_000);

interface Watched {
  readonly plane: Plane;
  /** The number of writes so far, but for deletions of what was of use before. */
  readonly written: () => number;
}

const DELETION: ReadonlySet<string> = new Set(['flush-chain', 'delete-chain', 'delete-set', 'delete-elements']);

const MODES: Readonly<Record<'nftables' | 'iptables', () => Watched>> = {
  nftables: () => {
    const table = new FakeNftTable();
    const written = () => table.committed.flat().filter(({ kind }) => !DELETION.has(kind)).length;
    return { plane: nftablesPlane(table), written };
  },
  iptables: () => {
    const programs = new FakeIptables();
    return { plane: iptablesPlane(programs), written: () => programs.scripts.length };
  },
};

/** What the plan comes to on a kernel in memory that stores it as it is. */
async function wanted(mode: 'nftables' | 'iptables', events: readonly SourceEvent[]): Promise<string> {
  const fake = new FakeKernel(mode);
  await fake.prepare();
  fake.setNodeAddresses(NODE);
  await reconcilingIn(mode, fake).take(...listed([], []), ...events);
  return kernelText(fake);
}

describe.each(['nftables', 'iptables'] as const)('%s mode under random histories', (mode) => {
  test('each change ends in what the plan wants, as another process reads it, and a full check adds nothing', async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(anyEvent, { minLength: 1, maxLength: 30 }), async (events) => {
        const { plane, written } = MODES[mode]();
        const { kernel, run } = await startOn(plane);
        await run.take(...listed([], []));
        for (const event of events) expect((await run.settle(event)).failures).toEqual([]);
        const want = await wanted(mode, events);
        expect(await kernelText(plane.another())).toBe(want);
        expect(await kernelText(kernel)).toBe(want);
        const before = written();
        const report = await run.pass(30_000);
        expect(report).toMatchObject({ kind: 'full', ok: true });
        expect([...report.operations.keys()]).toEqual([]);
        expect(written()).toBe(before);
        const writes = plane.writes();
        await run.pass(30_000);
        expect(plane.writes()).toBe(writes);
        await run.reconciler.stop();
      }),
      { numRuns: wishes(40).histories },
    );
  });
});
