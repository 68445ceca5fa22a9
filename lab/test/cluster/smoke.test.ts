import { describe, expect, test } from '@jest/globals';
import type { SpecResult } from '../../cluster/e2e/junit.ts';
import { tooOld } from '../../cluster/go.ts';
import { checkLines, checkReport, specChecks, trialCheck } from '../../cluster/smoke/check.ts';
import { SMOKE_SPECS, focusOf } from '../../cluster/smoke/specs.ts';

function result(spec: string, outcome: SpecResult['outcome'], message = ''): SpecResult {
  return { spec, outcome, seconds: 1, message };
}

describe('the checks of the specs that were asked for', () => {
  const checks = specChecks(
    ['a', 'b', 'c', 'd'],
    [
      result('a', 'passed'),
      result('b', 'failed', 'timed out'),
      result('c', 'skipped', 'no IPv6'),
      result('e', 'passed'),
    ],
  );

  test('only one that ran and passed counts as passed', () => {
    expect(checkReport(checks)).toEqual({ numPassedTests: 1, numFailedTests: 3, numRuntimeErrorTestSuites: 0 });
  });

  test('each has a line with its name; a failed one says why', () => {
    expect(checkLines(checks)).toEqual([
      'ok      a',
      'FAILED  b: failed: timed out',
      'FAILED  c: skipped: no IPv6',
      'FAILED  d: it did not run',
    ]);
  });

  test('without a report, all of them failed', () => {
    expect(checkReport(specChecks(['a', 'b'], []))).toMatchObject({ numPassedTests: 0, numFailedTests: 2 });
  });
});

describe('the expression that selects specs', () => {
  const selects = (specs: readonly string[], name: string): boolean =>
    new RegExp(String.raw`\[sig-network\] ${focusOf(specs)}`).test(name);

  test.each(SMOKE_SPECS)('selects %s', (spec) => {
    expect(selects([spec], spec)).toBe(true);
  });

  test('takes brackets and dots of a name literally', () => {
    expect(selects(['[sig-network] A b.c [Conformance]'], '[sig-network] A bxc [Conformance]')).toBe(false);
    expect(selects(['[sig-network] A [Conformance]'], '[sig-network] A C')).toBe(false);
  });

  test('selects no others', () => {
    expect(selects(SMOKE_SPECS, '[sig-network] Services should prevent NodePort collisions')).toBe(false);
  });
});

test('a trial is one check, which fails with its numbers', () => {
  const trial = { what: 'rolling update', asked: 100, failed: 1, cut: 0 };
  expect(trialCheck({ ...trial, failed: 0, wrong: [] })).toEqual({ name: 'rolling update, under traffic' });
  expect(trialCheck({ ...trial, wrong: ['1 connection failed'] }).failure).toBe(
    '100 connections asked, 1 failed, 0 cut: 1 connection failed',
  );
});

test('there are at most 12 specs, none twice', () => {
  expect(SMOKE_SPECS.length).toBeLessThanOrEqual(12);
  expect(new Set(SMOKE_SPECS).size).toBe(SMOKE_SPECS.length);
});

test.each([
  ['go1.24.9', true],
  ['go1.25', false],
  ['go1.25.3', false],
  ['go1.26.8 X:nodwarf5', false],
  ['devel go1.27-8a3c1f', false],
])('Go %s is too old: %s', (version, expected) => {
  expect(tooOld(version)).toBe(expected);
});
