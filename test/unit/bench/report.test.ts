import { describe, expect, test } from '@jest/globals';
import type { Measurement } from '../../bench/measure.ts';
import { mergeRow, renderReport, toJson } from '../../bench/report.ts';

const LINES = [
  '{"row":"first-sync","name":"first sync 100x5","value":1234.5,"p99":1500,"unit":"ms","baseline":1000,"baselineP99":1100,"against":"the floor | raw","ratio":1.235,"n":10,"kernel":"uml","cpus":1,"node":"v24.21.0","date":"2026-11-21","target":{"text":"at most 1.3 x the floor","reached":true}}',
  '{"row":"first-sync","name":"object by object","value":10,"p99":11,"unit":"ms","baseline":200,"baselineP99":210,"against":"processes","ratio":0.05,"n":3,"kernel":"uml","cpus":1,"node":"v24.21.0","date":"2026-11-21","target":{"text":"at least 50 times faster","reached":false}}',
  '{"row":"memory","name":"RSS","value":70.5,"p99":71,"unit":"MiB","baseline":null,"baselineP99":null,"against":null,"ratio":null,"n":2,"kernel":"native","cpus":2,"node":"v24.21.0","date":"2026-11-22"}',
];
const MEASURED = LINES.map((line) => JSON.parse(line) as Measurement);
const TEMPLATE =
  '# Title\n\n<!-- targets -->\n\nBetween <!-- measures --> words.\n\n<!-- profiles -->\n\n<!-- measures -->\n';

describe('the performance page', () => {
  test('is made of JSON lines: targets, reached or not, and a table for each row with where it was measured', () => {
    expect(renderReport({ measured: MEASURED, template: TEMPLATE, profiles: ['profiles-pipeline.md'] })).toBe(`# Title

1 of 2 reached.

| measure | target |  | median | ratio |
|---|---|---|---|---|
| first sync 100x5 | at most 1.3 x the floor | reached | 1,235 ms | 1.235x |
| object by object | at least 50 times faster | **not reached** | 10 ms | 0.05x (20 times less) |

Between <!-- measures --> words.

- [profiles-pipeline.md](profiles-pipeline.md)

### first-sync

uml kernel, 1 CPU, Node v24.21.0, 2026-11-21.

| measure | median | p99 | baseline | its p99 | ratio | n | baseline is |
|---|---|---|---|---|---|---|---|
| first sync 100x5 | 1,235 ms | 1,500 ms | 1,000 ms | 1,100 ms | 1.235x | 10 | the floor \\| raw |
| object by object | 10 ms | 11 ms | 200 ms | 210 ms | 0.05x (20 times less) | 3 | processes |

### memory

native kernel, 2 CPUs, Node v24.21.0, 2026-11-22.

| measure | median | p99 | baseline | its p99 | ratio | n | baseline is |
|---|---|---|---|---|---|---|---|
| RSS | 70.5 MiB | 71 MiB |  |  |  | 2 |  |
`);
  });

  test('says that nothing was measured', () => {
    const text = renderReport({ measured: [], template: TEMPLATE, profiles: [] });
    expect(text).toContain('Nothing with a target was measured yet.');
    expect(text).toContain('Nothing was measured yet.');
    expect(text).toContain('None yet.');
  });
});

describe('what was measured before', () => {
  const [first, second, rss] = MEASURED as [Measurement, Measurement, Measurement];

  test('is kept but for the row measured again', () => {
    const again = { ...rss, value: 60 };
    expect(mergeRow(MEASURED, 'memory', [again], ['memory', 'first-sync'])).toEqual([again, first, second]);
  });

  test('goes with its row', () => {
    expect(mergeRow(MEASURED, 'memory', [], ['first-sync', 'memory'])).toEqual([first, second]);
    expect(mergeRow(MEASURED, 'memory', [rss], ['memory'])).toEqual([rss]);
  });

  test('is JSON with a line for each', () => {
    expect(toJson(MEASURED).split('\n')).toHaveLength(6);
    expect(JSON.parse(toJson(MEASURED))).toEqual(MEASURED);
    expect(JSON.parse(toJson([]))).toEqual([]);
  });
});
