import { describe, expect, test } from '@jest/globals';
import type { SpecResult } from '../../cluster/e2e/junit.ts';
import { e2ePage } from '../../cluster/e2e/page.ts';
import { REASONS, type Reason, reasonFor } from '../../cluster/e2e/reasons.ts';
import { type Kept, type Run, addRun, toJson } from '../../cluster/e2e/results.ts';

const NOTHING: Kept = { runs: [], results: [] };

function run(changes: Partial<Run> = {}): Run {
  return {
    start: '2026-01-02T03:04:05Z',
    proxy: 'ours',
    version: '0.1.0 at abcdef0',
    kubernetes: '1.35.4',
    families: 'ipv4',
    nodes: 2,
    kernel: '6.1.0',
    seconds: 60,
    procs: 2,
    ...changes,
  };
}

function passed(name: string, seconds = 10): SpecResult {
  return { spec: `[sig-network] ${name}`, outcome: 'passed', seconds, message: '' };
}

function failed(name: string, message: string): SpecResult {
  return { ...passed(name), outcome: 'failed', message };
}

describe('adding a run', () => {
  const first = addRun(NOTHING, run(), [passed('a', 1), passed('b', 1)]);
  const later = { start: '2026-01-03T00:00:00Z' };

  test('a partial run replaces only what it ran', () => {
    const kept = addRun(first, run(later), [passed('b', 2)]);
    expect(kept.results.map(({ spec, seconds }) => [spec, seconds])).toEqual([
      ['[sig-network] a', 1],
      ['[sig-network] b', 2],
    ]);
    expect(kept.runs).toHaveLength(2);
  });

  test('a run of which no result is left is dropped', () => {
    const kept = addRun(first, run(later), [passed('a', 2), passed('b', 2)]);
    expect(kept.runs.map(({ start }) => start)).toEqual([later.start]);
  });

  test('a spec that passes again and again is counted, from one after each failure', () => {
    const day = (number: number): Run => run({ start: `2026-01-0${number}T00:00:00Z` });
    const twice = addRun(first, day(3), [passed('a')]);
    const thrice = addRun(twice, day(4), [passed('a')]);
    const after = addRun(addRun(thrice, day(5), [failed('a', 'timeout')]), day(6), [passed('a')]);
    expect([first, twice, thrice, after].map(({ results }) => results[0]?.passesInARow)).toEqual([
      undefined,
      2,
      3,
      undefined,
    ]);
    expect(e2ePage(thrice, []).text).toMatch(/^\| a \| passed 3x \(10\) \|/m);
  });

  test('passes in clusters of another kind are counted by themselves', () => {
    const kept = addRun(first, run({ ...later, families: 'ipv6' }), [passed('a')]);
    expect(kept.results.filter(({ passesInARow }) => passesInARow !== undefined)).toEqual([]);
  });

  test.each<Partial<Run>>([{ proxy: 'kube-proxy-ipvs' }, { kubernetes: '1.36.0' }, { families: 'ipv4, ipv6' }])(
    'results of another kind of cluster stay: %p',
    (other) => {
      expect(addRun(first, run({ ...later, ...other }), [passed('a')]).results).toHaveLength(3);
    },
  );

  test('the JSON file reads back', () => {
    expect(JSON.parse(toJson(first))).toEqual(first);
    expect(JSON.parse(toJson(NOTHING))).toEqual(NOTHING);
  });
});

describe('the page', () => {
  const both = addRun(
    addRun(NOTHING, run(), [passed('Services serve', 12.4), failed('DNS | resolves', 'timeout')]),
    run({ start: '2026-01-03T00:00:00Z', proxy: 'kube-proxy-ipvs', version: '1.35.4' }),
    [passed('Services serve', 9)],
  );
  const slow: Reason = { message: /timeout/, because: 'the kernel is slow' };

  test('has a row for each spec, with the outcome and the seconds of each proxy', () => {
    const rows = e2ePage(both, [slow]).text.split('\n');
    expect(rows.map((row) => row.replaceAll(/ +/g, ' '))).toEqual(
      expect.arrayContaining([
        '| Services serve | passed (12) | passed (9) | | | | |',
        String.raw`| DNS \| resolves | **failed** (10) | | | | | |`,
      ]),
    );
  });

  test('counts outcomes and names versions and dates', () => {
    expect(e2ePage(both, [slow]).text.replaceAll(/ +/g, ' ')).toContain(
      '| ours | 1 | 1 | 0 | 0.1.0 at abcdef0 | 6.1.0 | 2026-01-02 |',
    );
  });

  test('says why a spec failed', () => {
    const { text, unexplained } = e2ePage(both, [slow]);
    expect(text).toContain('- ours: failed: DNS | resolves, because the kernel is slow');
    expect(unexplained).toEqual([]);
  });

  test('reports a failed spec without a reason', () => {
    expect(e2ePage(both, []).unexplained).toEqual(['ours: [sig-network] DNS | resolves: timeout']);
  });

  test('reports a skipped spec without a reason', () => {
    const skipped: SpecResult = { ...passed('a'), outcome: 'skipped', message: 'too few nodes' };
    expect(e2ePage(addRun(NOTHING, run(), [skipped]), []).unexplained).toEqual([
      'ours: [sig-network] a: too few nodes',
    ]);
  });

  test('has a section for each version of Kubernetes', () => {
    const two = addRun(both, run({ start: '2026-01-04T00:00:00Z', kubernetes: '1.36.0' }), [passed('a')]);
    expect(e2ePage(two, [slow]).text.match(/^## .*$/gm)).toEqual([
      '## Kubernetes 1.35.4, ipv4',
      '## Kubernetes 1.36.0, ipv4',
    ]);
  });
});

describe('reasons', () => {
  test.each<[string, Reason, boolean]>([
    ['of the spec', { spec: /a$/, because: '' }, true],
    ['of another spec', { spec: /b$/, because: '' }, false],
    ['of the message', { message: /time/, because: '' }, true],
    ['of another message', { message: /refused/, because: '' }, false],
    ['of the proxy', { spec: /a$/, proxies: ['ours'], because: '' }, true],
    ['of another proxy', { spec: /a$/, proxies: ['kube-proxy-ipvs'], because: '' }, false],
    ['of the spec but another message', { spec: /a$/, message: /refused/, because: '' }, false],
  ])('%s', (_, reason, fits) => {
    expect(reasonFor([reason], failed('a', 'timeout'), 'ours')).toBe(fits ? reason : undefined);
  });

  test('each has a condition', () => {
    expect(REASONS.filter(({ spec, message }) => spec === undefined && message === undefined)).toEqual([]);
  });
});
