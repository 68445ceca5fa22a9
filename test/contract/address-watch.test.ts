import { setTimeout } from 'node:timers/promises';
import { afterEach, beforeEach, describe, expect, jest, test } from '@jest/globals';
import type { Op } from '../../src/state/op.ts';
import { transaction } from '../../src/state/transaction.ts';
import { runCommand } from '../bed/command.ts';
import { address } from './objects.ts';
import { LinuxBed } from './linux-bed.ts';

jest.setTimeout(120_000);

/** What a node does to a watch of its addresses: thousands of addresses on kube-ipvs0 at once, and a busy event loop. */
describe('the watch of node addresses', () => {
  let bed: LinuxBed;

  beforeEach(async () => {
    bed = await LinuxBed.make();
    await bed.kernel.prepare();
    await bed.run('ip', 'link', 'add', 'node0', 'type', 'dummy');
  });

  afterEach(async () => {
    await bed[Symbol.asyncDispose]();
  });

  const bind = (count: number): Op[] =>
    Array.from({ length: count }, (_, n) => ({ kind: 'bind-address', address: address(4, n + 1) }));

  async function reported(changes: () => number, change: () => Promise<unknown>): Promise<boolean> {
    const before = changes();
    await change();
    for (let wait = 0; wait < 100 && changes() === before; wait++) await setTimeout(50);
    return changes() > before;
  }

  test('outlives a flood with its event loop blocked, and reports what comes after it', async () => {
    let changes = 0;
    const stop = bed.kernel.watchNodeAddresses(() => (changes += 1));
    for (let round = 0; round < 3; round++) {
      const flood = bed.kernel.apply(transaction(bind(8_000)));
      const until = Date.now() + 300;
      while (Date.now() < until);
      expect((await flood).failures).toEqual([]);
      await bed.kernel.apply(transaction(bind(8_000).map((op) => ({ ...op, kind: 'unbind-address' }) as Op)));
    }
    await setTimeout(300);
    const seen = await reported(
      () => changes,
      () => bed.run('ip', 'addr', 'add', `192.0.2.7/24`, 'dev', 'node0'),
    );
    expect(seen).toBe(true);
    stop();
    const after = changes;
    await bed.run('ip', 'addr', 'del', '192.0.2.7/24', 'dev', 'node0');
    await setTimeout(200);
    expect(changes).toBe(after);
  });

  test('can be stopped in the middle of a flood, and begun again, many times', async () => {
    for (let round = 0; round < 20; round++) {
      const stop = bed.kernel.watchNodeAddresses(() => undefined);
      const flood = bed.kernel.apply(transaction(bind(300)));
      await setTimeout(round % 5);
      stop();
      await flood;
      await bed.kernel.apply(transaction(bind(300).map((op) => ({ ...op, kind: 'unbind-address' }) as Op)));
    }
    let changes = 0;
    const stop = bed.kernel.watchNodeAddresses(() => (changes += 1));
    const add = ['ip', '-n', bed.netns, 'addr', 'add', '192.0.2.8/24', 'dev', 'node0'];
    expect(
      await reported(
        () => changes,
        () => runCommand(add),
      ),
    ).toBe(true);
    stop();
  });
});
