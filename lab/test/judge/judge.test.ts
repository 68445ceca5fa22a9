import { describe, expect, test } from '@jest/globals';
import { makeCase } from '../../judge/case/make-case.ts';
import { type IntendedDifference, type Mismatch, explain } from '../../judge/compare.ts';
import { kindOf } from '../../judge/judge.ts';

function mismatch(fact: string, ours: string | undefined, ...theirs: (string | undefined)[]): Mismatch {
  return { given: makeCase('ipvs', 1, 1), step: 0, fact, ours, theirs, oursAll: new Map(), theirsAll: [] };
}

function replacing(name: string, from: string, to: string): IntendedDifference {
  return {
    name,
    section: '',
    undo: ({ ours }) => (ours?.includes(from) ? { value: ours.replace(from, to) } : undefined),
  };
}

describe('explain', () => {
  const differences = [replacing('one', 'a', 'A'), replacing('two', 'b', 'B')];

  test('one difference explains, or two of them together', () => {
    expect(explain(differences, mismatch('x', 'a-', 'A-'))).toEqual(['one']);
    expect(explain(differences, mismatch('x', 'ab', 'AB'))).toEqual(['one', 'two']);
  });

  test('what remains is not explained', () => {
    expect(explain(differences, mismatch('x', 'abc', 'ABC'))).toBeUndefined();
    expect(explain(differences, mismatch('x', 'c', 'd'))).toBeUndefined();
  });
});

test.each([
  ['virtual server TCP 10.96.0.1:80', 'a', 'b', 'virtual server, another value'],
  ['entry KUBE-CLUSTER-IP 10.96.0.1,tcp:80', 'present', undefined, 'entry KUBE-CLUSTER-IP, only ours'],
  [
    'packet from a Pod here (10.244.0.99) to TCP 10.96.0.1:80',
    '1 here',
    '1 dropped',
    'packet from a Pod here, another value',
  ],
  ['flow 10.1.1.1:1 -> [10.96.0.1]:53 by [10.96.0.1]:53', undefined, 'deleted', "flow, only upstream's"],
])('the kind of %s', (fact, ours, theirs, kind) => {
  expect(kindOf(mismatch(fact, ours, theirs))).toBe(kind);
});
