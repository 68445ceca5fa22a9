import { expect, test } from '@jest/globals';
import fc from 'fast-check';
import { DueQueue } from '../../../src/endpoint-check/due-queue.ts';

const change = fc.tuple(fc.nat(30), fc.option(fc.nat(100), { nil: undefined }));

test('items come in the order of their times, after any additions, changes and removals', () => {
  fc.assert(
    fc.property(fc.array(change, { maxLength: 200 }), fc.nat(100), (changes, now) => {
      const queue = new DueQueue<number>();
      const times = new Map<number, number>();
      for (const [item, at] of changes) {
        if (at === undefined) {
          queue.delete(item);
          times.delete(item);
        } else {
          queue.set(item, at);
          times.set(item, at);
        }
        expect(queue.nextAt).toBe(Math.min(Infinity, ...times.values()));
      }
      const taken: number[] = [];
      for (let item = queue.take(now); item !== undefined; item = queue.take(now)) taken.push(item);
      const due = [...times].filter(([, at]) => at <= now);
      expect(taken.map((item) => times.get(item))).toEqual(due.map(([, at]) => at).toSorted((a, b) => a - b));
      expect(new Set(taken)).toEqual(new Set(due.map(([item]) => item)));
    }),
  );
});
