import { afterEach, beforeEach, describe, expect, jest, test } from '@jest/globals';
import { TableWatch } from '../../../../src/kernel/nftables/table-watch.ts';
import { TestLog } from '../../../support/reconciling.ts';

/** A watch of a ruleset whose generation, own transactions and lost tables a test sets. */
function watched() {
  const node = { generation: 1 as number | Error, own: false, looks: 0, lost: new Set<number>(), told: [] as string[] };
  const watch = new TableWatch({
    log: new TestLog(),
    generation: () =>
      node.generation instanceof Error ? Promise.reject(node.generation) : Promise.resolve(node.generation),
    isOwn: (before, after) => before === after || node.own,
    isLost: (family) => {
      node.looks += 1;
      return Promise.resolve(node.lost.has(family));
    },
    onTableLost: (reason) => node.told.push(reason),
  });
  watch.start();
  return { node, watch };
}

describe('the watch on tables', () => {
  beforeEach(() => void jest.useFakeTimers());
  afterEach(() => void jest.useRealTimers());

  test('tells of a deleted table once, within a second', async () => {
    const { node, watch } = watched();
    await jest.advanceTimersByTimeAsync(1_000);
    node.generation = 2;
    node.lost.add(4);
    await jest.advanceTimersByTimeAsync(5_000);
    expect(node.told).toEqual(['table ip kube-proxy was deleted']);
    watch.stop();
  });

  test('looks at no table while nobody else has changed the ruleset', async () => {
    const { node, watch } = watched();
    await jest.advanceTimersByTimeAsync(1_000);
    expect(node.looks).toBe(2);
    node.own = true;
    node.generation = 9;
    await jest.advanceTimersByTimeAsync(5_000);
    expect(node.looks).toBe(2);
    watch.stop();
  });

  test('looks again when it could not', async () => {
    const { node, watch } = watched();
    await jest.advanceTimersByTimeAsync(1_000);
    node.generation = new Error('ENOBUFS');
    node.lost.add(6);
    await jest.advanceTimersByTimeAsync(1_000);
    expect(node.told).toEqual([]);
    node.generation = 2;
    await jest.advanceTimersByTimeAsync(1_000);
    expect(node.told).toEqual(['table ip6 kube-proxy was deleted']);
    watch.stop();
  });

  test('tells nothing when it was stopped', async () => {
    const { node, watch } = watched();
    watch.stop();
    node.lost.add(4);
    await jest.advanceTimersByTimeAsync(5_000);
    expect(node.told).toEqual([]);
  });
});
