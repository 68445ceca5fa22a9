import { describe, expect, test } from '@jest/globals';
import { type Evidence, type Failure, failuresByStep, judge } from '../../cluster/trial/judge.ts';

function failure(changes: Partial<Failure> = {}): Failure {
  return {
    event: 'failure',
    client: 'Pod',
    at: 2000,
    target: 'ClusterIP',
    kind: 'refused',
    cut: false,
    detail: 'ECONNREFUSED',
    ms: 1,
    localPort: 40_000,
    ...changes,
  };
}

function evidence(changes: Partial<Evidence> = {}): Evidence {
  return {
    steps: [{ at: 1000, text: 'first' }],
    asked: 100,
    unlisted: 0,
    failures: [],
    slow: [],
    allowances: [],
    checks: [],
    limits: { failed: 0, cut: 0 },
    expected: 100,
    ...changes,
  };
}

const CUT = failure({ cut: true, kind: 'closed', served: 'a' });

describe('the verdict', () => {
  test('a trial without failures holds', () => {
    expect(judge(evidence())).toEqual({ wrong: [], asked: 100, failed: 0, cut: 0, slow: 0, allowed: {} });
  });

  test.each<[string, Partial<Evidence>, string]>([
    ['a failed connection', { failures: [failure()] }, '1 connections failed, not more than 0 may'],
    ['a cut connection', { failures: [CUT] }, '1 connections were cut, not more than 0 may'],
    [
      'more than the limit',
      { failures: [failure(), failure()], limits: { failed: 1, cut: 9 } },
      '2 connections failed',
    ],
    ['failures without a line', { unlisted: 3 }, '3 failures are not listed'],
    ['traffic that did not go on', { asked: 79 }, 'only 79 of 100 connections were asked'],
    ['a check', { checks: [{ claim: 'it is so', holds: false }] }, 'it does not hold that it is so'],
  ])('%s is wrong', (_, changes, wrong) => {
    expect(judge(evidence(changes)).wrong).toEqual([expect.stringContaining(wrong)]);
  });

  test('as many as the limit are not wrong', () => {
    expect(judge(evidence({ failures: [failure(), CUT], limits: { failed: 1, cut: 1 } })).wrong).toEqual([]);
  });

  test('what an allowance covers is counted by its reason, once', () => {
    const allowances = [
      { because: 'its server ended', covers: ({ served }: Failure) => served === 'a' },
      { because: 'any reason', covers: ({ cut }: Failure) => cut },
    ];
    const { wrong, failed, cut, allowed } = judge(evidence({ failures: [CUT, failure()], allowances }));
    expect({ failed, cut, allowed }).toEqual({ failed: 1, cut: 0, allowed: { 'its server ended': 1 } });
    expect(wrong).toHaveLength(1);
  });
});

describe('failures by step', () => {
  const steps = [
    { at: 1000, text: 'first' },
    { at: 3000, text: 'second' },
  ];

  test('are beside the step during which they began, in order, with the seconds since then', () => {
    const failures = [failure({ at: 4500 }), failure({ at: 3000 }), failure({ at: 2999 })];
    expect(failuresByStep(steps, failures, []).map(({ step, count, from, to }) => [step, count, from, to])).toEqual([
      ['first', 1, 2, 2],
      ['second', 2, 0, 1.5],
    ]);
  });

  test('one before the first step has a place, too', () => {
    expect(failuresByStep(steps, [failure({ at: 10 })], [])[0]?.step).toBe('before the first step');
  });

  test('different failures of one step are told apart', () => {
    const allowances = [{ because: 'its server ended', covers: ({ cut }: Failure) => cut }];
    expect(failuresByStep(steps, [failure(), CUT], allowances).map(({ text }) => text)).toEqual([
      'failed: Pod to ClusterIP: refused (ECONNREFUSED)',
      'cut: Pod to ClusterIP: closed (ECONNREFUSED), served by a; allowed: its server ended',
    ]);
  });
});
