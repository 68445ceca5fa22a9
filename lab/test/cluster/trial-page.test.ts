import { readFileSync } from 'node:fs';
import { describe, expect, test } from '@jest/globals';
import { trialsPage } from '../../cluster/trial/page.ts';
import {
  type KeptTrials,
  type TrialResult,
  addTrial,
  limitsOfKubeProxy,
  trialsToJson,
} from '../../cluster/trial/results.ts';

function result(changes: Partial<TrialResult> = {}): TrialResult {
  return {
    trial: 'restart',
    what: 'all | restarted',
    proxy: 'ours',
    version: '0.1.0 at abcdef0',
    overlay: 'privileged',
    kubernetes: '1.35.4',
    families: 'ipv4',
    nodes: 2,
    kernel: '6.1.0',
    start: '2026-01-02T03:04:05Z',
    seconds: 60,
    asked: 3000,
    failed: 0,
    cut: 0,
    slow: 2,
    allowed: {},
    measured: {},
    wrong: [],
    ...changes,
  };
}

const NOTHING: KeptTrials = { trials: [] };

describe('adding a result', () => {
  const first = addTrial(NOTHING, result());

  test('it replaces that of the same trial with the same kind of cluster', () => {
    expect(addTrial(first, result({ start: 'later', failed: 1 })).trials).toEqual([
      result({ start: 'later', failed: 1 }),
    ]);
  });

  test.each<Partial<TrialResult>>([
    { trial: 'other' },
    { proxy: 'kube-proxy-ipvs' },
    { overlay: 'restricted' },
    { kubernetes: '1.36.0' },
    { families: 'ipv6' },
  ])('others stay: %p', (changes) => {
    expect(addTrial(first, result(changes)).trials).toHaveLength(2);
  });

  test('the JSON file reads back', () => {
    expect(JSON.parse(trialsToJson(first))).toEqual(first);
    expect(JSON.parse(trialsToJson(NOTHING))).toEqual(NOTHING);
  });
});

test('the limits of kube-proxy are those of the same trial and the same kind of cluster', () => {
  const kept = addTrial(addTrial(NOTHING, result()), result({ proxy: 'kube-proxy-ipvs', failed: 7, cut: 3 }));
  const limits = (name: string, kubernetes: string) =>
    limitsOfKubeProxy(kept, name, { kubernetes, families: ['ipv4'] });
  expect(limits('restart', '1.35.4')).toMatchObject({ failed: 7, cut: 3 });
  expect(limits('other', '1.35.4')).toBeUndefined();
  expect(limits('restart', '1.36.0')).toBeUndefined();
});

describe('the page', () => {
  function rows(...results: TrialResult[]): string[] {
    return trialsPage({ trials: results }).replaceAll(/ +/g, ' ').split('\n');
  }

  test('has a row for each trial', () => {
    const allowed = { 'its server ended': 4 };
    expect(rows(result({ allowed, measured: { 'new endpoint, p50': '12 ms' } }))).toContain(
      String.raw`| restart | all \| restarted | ours | 1.35.4, ipv4, 2 nodes, privileged | 3000 | 0 | 0 | 2 | 4: its server ended | new endpoint, p50: 12 ms | yes | 0.1.0 at abcdef0 | 2026-01-02 |`,
    );
  });

  test('says why one does not hold', () => {
    const page = rows(result({ failed: 1, wrong: ['1 connections failed'] }));
    expect(page).toContain('- restart (privileged): 1 connections failed');
    expect(page.find((line) => line.startsWith('| restart'))).toContain('| **no** |');
  });

  test('has no verdict on kube-proxy', () => {
    const page = rows(result({ proxy: 'kube-proxy-ipvs', overlay: '', failed: 1, wrong: ['1 connections failed'] }));
    expect(page.find((line) => line.startsWith('| restart'))).toMatch(/\| 1 \| 0 \| 2 \| \| \| \| 0.1.0/);
    expect(page.join('\n')).not.toContain('do not hold');
  });
});

test('lab/results/trials.md is the page of lab/results/trials.json; if not, run `make e2e-page`', () => {
  const kept = JSON.parse(readFileSync('lab/results/trials.json', 'utf8')) as KeptTrials;
  expect(readFileSync('lab/results/trials.md', 'utf8')).toBe(trialsPage(kept));
});
