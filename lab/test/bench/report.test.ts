import { readFileSync } from 'node:fs';
import { describe, expect, test } from '@jest/globals';
import type { Measurement } from '../../bench/measure.ts';
import { HEADLINES, mergeRow, renderReport, toJson } from '../../bench/report.ts';

const LINES = [
  '{"row":"first-sync","name":"first sync 100x5","value":1234.5,"p99":1500,"unit":"ms","baseline":1000,"baselineP99":1100,"against":"the floor | raw","ratio":1.235,"n":10,"kernel":"uml","cpus":1,"node":"v24.21.0","date":"2026-11-21","target":{"text":"at most 1.3 x the floor","reached":true}}',
  '{"row":"first-sync","name":"object by object","value":10,"p99":11,"unit":"ms","baseline":200,"baselineP99":210,"against":"processes","ratio":0.05,"n":3,"kernel":"uml","cpus":1,"node":"v24.21.0","date":"2026-11-21","target":{"text":"at least 50 times faster","reached":false}}',
  '{"row":"memory","name":"RSS","value":70.5,"p99":71,"unit":"MiB","baseline":null,"baselineP99":null,"against":null,"ratio":null,"n":2,"kernel":"native","cpus":2,"node":"v24.21.0","date":"2026-11-22"}',
];
const MEASURED = LINES.map((line) => JSON.parse(line) as Measurement);
const TEMPLATE = '# Title\n\n<!-- targets -->\n\nBetween <!-- profiles --> words.\n\n<!-- profiles -->\n';

describe('the performance page', () => {
  const headline = { ...MEASURED[0], name: HEADLINES[0] ?? '' } as Measurement;

  test('the performance page has a table row for each headline, and counts and lists the other targets', () => {
    const measured = [...MEASURED.slice(1), headline];
    expect(renderReport({ measured, template: TEMPLATE, profiles: ['profiles-pipeline.md'] })).toBe(`# Title

<!-- prettier-ignore -->
| measure | median | p99 | baseline | ratio | target | result | n | kernel |
| --- | --- | --- | --- | --- | --- | --- | --- | --- |
| ${headline.name} | 1,235 ms | 1,500 ms | 1,000 ms (the floor \\| raw) | 1.235x | at most 1.3 x the floor | reached | 10 | uml |

In all, 1 of 2 targets are reached; \`lab/results/performance.json\` has them all.

Other targets not reached:

- object by object

Between <!-- profiles --> words.

- [profiles-pipeline.md](../notes/profiles-pipeline.md)
`);
  });

  test('the performance page has every headline of lab/results/performance.json that has a target', () => {
    const measured = JSON.parse(readFileSync('lab/results/performance.json', 'utf8')) as Measurement[];
    const targets = measured.filter(({ target }) => target !== undefined).map(({ name }) => name);
    expect(HEADLINES.filter((name) => !targets.includes(name))).toEqual([]);
  });

  test('the performance page says so if nothing was measured', () => {
    const text = renderReport({ measured: [], template: TEMPLATE, profiles: [] });
    expect(text).toContain('No measure with a target has run yet.');
    expect(text).toContain('None yet.');
  });
});

describe('what was measured before', () => {
  const [first, second, rss] = MEASURED as [Measurement, Measurement, Measurement];

  test('earlier measures are kept, except for the row that is measured again', () => {
    const again = { ...rss, value: 60 };
    expect(mergeRow(MEASURED, 'memory', [again], ['memory', 'first-sync'])).toEqual([again, first, second]);
  });

  test('measures of a removed row are removed', () => {
    expect(mergeRow(MEASURED, 'memory', [], ['first-sync', 'memory'])).toEqual([first, second]);
    expect(mergeRow(MEASURED, 'memory', [rss], ['memory'])).toEqual([rss]);
  });

  test('lab/results/performance.json has one line for each measure', () => {
    expect(toJson(MEASURED).split('\n')).toHaveLength(6);
    expect(JSON.parse(toJson(MEASURED))).toEqual(MEASURED);
    expect(JSON.parse(toJson([]))).toEqual([]);
  });
});
