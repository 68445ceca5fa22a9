import { describe, expect, test } from '@jest/globals';
import { makeCase } from '../../judge/case/make-case.ts';
import { mismatches } from '../../judge/compare.ts';

const given = { ...makeCase('ipvs', 1, 1), steps: [{ apply: [], remove: [], flows: [] }] };
const factsOf = (state: Readonly<Record<string, string>>) => new Map(Object.entries(state));

function compared(ours: Record<string, string>, ...results: Record<string, string>[]) {
  const found = mismatches(
    { factsOf },
    given,
    [ours],
    results.map((state) => [state]),
  );
  return found.map(({ fact, ours: own, theirs }) => ({ fact, ours: own, theirs }));
}

describe('mismatches', () => {
  test('a fact that one of the results has is none', () => {
    expect(compared({ a: '1', b: '2' }, { a: '1', b: '1' }, { a: '2', b: '2' })).toEqual([]);
  });

  test('a fact that none of the results has is one, and lists what they have', () => {
    expect(compared({ a: '3' }, { a: '1' }, { a: '2' }, { a: '1' })).toEqual([
      { fact: 'a', ours: '3', theirs: ['1', '2'] },
    ]);
  });

  test('what only one side has is a mismatch, unless a result of upstream lacks it too', () => {
    expect(compared({ a: '1' }, { b: '1' })).toEqual([
      { fact: 'a', ours: '1', theirs: [undefined] },
      { fact: 'b', ours: undefined, theirs: ['1'] },
    ]);
    expect(compared({}, { b: '1' }, {})).toEqual([]);
  });
});
