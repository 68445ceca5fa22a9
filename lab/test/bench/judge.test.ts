import { describe, expect, test } from '@jest/globals';
import { better, judge } from '../../bench/judge.ts';

function failures(recorded: Record<string, number>, found: Record<string, number>): string[] {
  return judge(recorded, found)
    .filter(({ failed }) => failed)
    .map(({ name }) => name);
}

describe('the guard', () => {
  test('the guard fails a ratio that is more than twice the recorded one, and no other', () => {
    expect(failures({ sync: 1.2, check: 0.3 }, { sync: 2.4, check: 0.61 })).toEqual(['check']);
    expect(failures({ sync: 1.2 }, { sync: 0.1 })).toEqual([]);
  });

  test('the guard fails a recorded ratio that is no longer measured, but not a new one', () => {
    expect(failures({ sync: 1.2 }, { check: 9 })).toEqual(['sync']);
    expect(judge({}, { check: 9 })).toEqual([{ name: 'check', ratio: 9, recorded: undefined, failed: false }]);
  });

  test('the guard uses the better of two runs', () => {
    expect(better({ sync: 3, check: 1 }, { sync: 2, other: 4 })).toEqual({ sync: 2, check: 1, other: 4 });
  });
});
