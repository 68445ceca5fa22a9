import { readFileSync } from 'node:fs';
import { describe, expect, test } from '@jest/globals';
import { e2ePage } from '../../cluster/e2e/page.ts';
import { REASONS, reasonFor } from '../../cluster/e2e/reasons.ts';
import type { Kept } from '../../cluster/e2e/results.ts';

describe('lab/results/e2e.md', () => {
  const kept = JSON.parse(readFileSync('lab/results/e2e.json', 'utf8')) as Kept;
  const page = e2ePage(kept, REASONS);

  test('is the page of lab/results/e2e.json; if not, run `make e2e-page`', () => {
    expect(readFileSync('lab/results/e2e.md', 'utf8')).toBe(page.text);
  });

  test('explains each spec that did not pass', () => {
    expect(page.unexplained).toEqual([]);
  });

  test('needs every reason', () => {
    const used = new Set(
      kept.results
        .filter(({ outcome }) => outcome !== 'passed')
        .map((result) => {
          const proxy = kept.runs.find(({ start }) => start === result.run)?.proxy;
          return proxy === undefined ? undefined : reasonFor(REASONS, result, proxy);
        }),
    );
    expect(REASONS.filter((reason) => !used.has(reason))).toEqual([]);
  });
});
