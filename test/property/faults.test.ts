import { describe, expect, jest, test } from '@jest/globals';
import { FakeFaultBed } from '../faults/fake-fault-bed.ts';
import { play, wishes } from '../faults/play.ts';
import { HistoryRun } from '../faults/run-history.ts';

jest.setTimeout(600_000);

describe('random faults on the kernel in memory', () => {
  test('one full check restores the state that the Services require, and the next one writes nothing', async () => {
    const wanted = wishes(1000);
    process.stderr.write(`faults: seed ${wanted.seed}, ${wanted.histories} histories\n`);
    let judged = 0;
    const playing = play(wanted, async (history, number) => {
      judged += await HistoryRun.check(new FakeFaultBed(), history, number);
    });
    await expect(playing).resolves.toBeUndefined();
    expect(judged).toBeGreaterThan(0);
  });
});
