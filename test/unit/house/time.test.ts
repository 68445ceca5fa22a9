import { readFileSync, readdirSync } from 'node:fs';
import path from 'node:path';
import { expect, test } from '@jest/globals';

/**
 * The wall clock can be set at any time: whoever waited by it waited for ever, or not at all. It is read in one place, for timestamps;
 * `new Date(milliseconds)` only writes one down.
 */
const READS_THE_WALL_CLOCK = new Set([
  'base/wall-clock.ts',
  // When the process began, of which one metric must never change.
  'observe/process-metrics.ts',
]);

/** Who may ask for the wall clock: what people, or the API, read. */
const WRITES_TIMESTAMPS = new Set([
  // Clock.wallNow()
  'reconcile/timing/clock.ts',
  'observe/log/winston-log.ts',
  'observe/z-pages.ts',
]);

/** Node's timers cannot wait longer than 2^31 - 1 ms: what comes from a setting goes through base/timer.ts. */
const WAITS_BY_A_SETTING = /\b(?:setTimeout|setInterval|sleep)\([^)]*(?:[cC]onfig\.|options\.\w*[pP]eriod|qps)/;

const sources = readdirSync('src', { recursive: true, encoding: 'utf8' }).filter((file) => file.endsWith('.ts'));

function textOf(file: string): string {
  return readFileSync(path.join('src', file), 'utf8').replaceAll(/\/\*[^]*?\*\/|\/\/.*/g, '');
}

test('only base/wall-clock.ts reads the wall clock, and only writers of timestamps import it', () => {
  const reading = /\bDate\.now\b|\bnew Date\(\s*\)|\bnew Date\b(?!\()|(?<!new )\bDate\(|\btimeOrigin\b/;
  expect(sources.filter((file) => reading.test(textOf(file)) && !READS_THE_WALL_CLOCK.has(file))).toEqual([]);
  const asking = /import \{[^}]*\bwallNow\b/;
  expect(sources.filter((file) => asking.test(textOf(file)) && !WRITES_TIMESTAMPS.has(file))).toEqual([]);
});

test('delays that come from settings use base/timer.ts only', () => {
  expect(sources.filter((file) => WAITS_BY_A_SETTING.test(textOf(file)))).toEqual([]);
});
