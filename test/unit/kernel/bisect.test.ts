import { describe, expect, test } from '@jest/globals';
import fc from 'fast-check';
import { type PartWriting, bisect } from '../../../src/kernel/bisect.ts';

/** A plane that refuses each part with one of these units. */
class Plane implements PartWriting<number, string> {
  readonly attempts: (readonly number[])[] = [];
  readonly written: number[] = [];
  readonly inOrder: boolean;
  readonly #bad: ReadonlySet<number>;

  constructor(bad: readonly number[], inOrder = true) {
    this.#bad = new Set(bad);
    this.inOrder = inOrder;
  }

  readonly write = (units: readonly number[]): Promise<string | undefined> => {
    this.attempts.push(units);
    if (units.some((unit) => this.#bad.has(unit))) return Promise.resolve('refused');
    this.written.push(...units);
    return Promise.resolve(undefined);
  };

  readonly isOfAll = (): Promise<boolean> => Promise.resolve(false);
}

const EIGHT = [1, 2, 3, 4, 5, 6, 7, 8];

describe('parts of which some are refused', () => {
  test('are divided until only the refused units are left', async () => {
    const plane = new Plane([3]);
    expect(await bisect([EIGHT], plane)).toEqual({
      refused: [{ units: [3], refusal: 'refused' }],
      stoppedBy: undefined,
    });
    expect(plane.written).toEqual([1, 2, 4, 5, 6, 7, 8]);
  });

  test('wait for the others, unless units must be written in order', async () => {
    const plane = new Plane([1], false);
    await bisect([[1, 2], [3, 4], [5]], plane);
    expect(plane.attempts).toEqual([[1, 2], [3, 4], [5], [1], [2]]);
  });

  test('are divided as the refusal says', async () => {
    const plane = new Plane([2, 5]);
    const divide = (units: readonly number[]) => ({
      atFault: [2, 5],
      parts: [units.filter((unit) => unit !== 2 && unit !== 5)],
    });
    const { refused } = await bisect([EIGHT], {
      write: plane.write,
      isOfAll: plane.isOfAll,
      divide,
      inOrder: true,
    });
    expect(refused).toEqual([{ units: [2, 5], refusal: 'refused' }]);
    expect(plane.attempts).toEqual([EIGHT, [1, 3, 4, 6, 7, 8]]);
  });

  test('all fail with a refusal of everything', async () => {
    const plane = new Plane([3]);
    const isOfAll = () => Promise.resolve(true);
    const result = await bisect([[1], [2, 3], [4]], { write: plane.write, isOfAll, inOrder: true });
    expect(result).toEqual({ refused: [{ units: [2, 3, 4], refusal: 'refused' }], stoppedBy: 'refused' });
    expect(plane.written).toEqual([1]);
  });

  test('each unit is written once or refused, whichever are at fault', async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.array(fc.array(fc.boolean()), { maxLength: 6 }),
        fc.boolean(),
        async (faults: readonly (readonly boolean[])[], inOrder) => {
          let count = 0;
          const bad: number[] = [];
          const parts = faults.map((part) =>
            part.map((isBad) => {
              count += 1;
              if (isBad) bad.push(count);
              return count;
            }),
          );
          const good = parts.flat().filter((unit) => !bad.includes(unit));
          const plane = new Plane(bad, inOrder);
          const { refused } = await bisect(parts, plane);
          expect(refused.flatMap(({ units }) => units).sort((a, b) => a - b)).toEqual(bad);
          expect(inOrder ? plane.written : plane.written.toSorted((a, b) => a - b)).toEqual(good);
        },
      ),
    );
  });
});
