// `make bench-guard`: fails when a ratio is more than twice as bad as the recorded one, in two runs. Never looks at absolute times.
// BENCH_RECORD=1 (`make bench-record`): records the ratios instead.
import { readFileSync, writeFileSync } from 'node:fs';
import { type Judgement, type Ratios, better, judge } from './judge.ts';
import { Measurements } from './measure.ts';
import type { Row } from './row.ts';
import { firstSync } from './row/first-sync.ts';
import { fullCheck } from './row/full-check.ts';
import { makeSize } from './size.ts';

/** Short ones, that compare our own work with a baseline of the same kind. */
const ROWS: readonly Row[] = [firstSync, fullCheck];
const RECORDED = new URL('recorded-ratios.json', import.meta.url);
const say = (text: string): void => void process.stderr.write(`bench guard: ${text}\n`);

async function measure(wanted: (row: string) => boolean): Promise<Map<string, { row: string; ratio: number }>> {
  const size = makeSize({ quick: true });
  const found = new Map<string, { row: string; ratio: number }>();
  for (const row of ROWS.filter(({ name }) => wanted(name))) {
    const out = new Measurements(row.name);
    await row.run(out, size);
    for (const [name, ratio] of out.guarded) found.set(name, { row: row.name, ratio });
  }
  return found;
}

function ratios(found: ReadonlyMap<string, { ratio: number }>): Ratios {
  return Object.fromEntries(Array.from(found, ([name, { ratio }]) => [name, ratio]));
}

function tell(verdicts: readonly Judgement[]): void {
  for (const { name, ratio, recorded, failed } of verdicts) {
    say(`${failed ? 'WORSE' : 'fine'}: ${name}: ${ratio ?? 'not measured'}, recorded ${recorded ?? 'not yet'}`);
  }
}

async function guard(): Promise<void> {
  const recorded = JSON.parse(readFileSync(RECORDED, 'utf8')) as Ratios;
  const found = await measure(() => true);
  let verdicts = judge(recorded, ratios(found));
  tell(verdicts);
  const again = new Set(verdicts.filter(({ failed }) => failed).map(({ name }) => found.get(name)?.row));
  if (again.size > 0) {
    say('once more, in case the machine was busy');
    // A row that was not there at first cannot be tried again: its verdict stays.
    const second = ratios(await measure((row) => again.has(row)));
    verdicts = judge(recorded, better(ratios(found), second));
    tell(verdicts);
  }
  const failures = verdicts.filter(({ failed }) => failed).length;
  say(
    failures === 0
      ? `${verdicts.length} ratios are fine`
      : `${failures} of ${verdicts.length} ratios are more than twice as bad`,
  );
  if (failures > 0) process.exitCode = 1;
}

async function recordRatios(): Promise<void> {
  const found = ratios(await measure(() => true));
  writeFileSync(RECORDED, `${JSON.stringify(found, undefined, 2)}\n`);
  say(`${Object.keys(found).length} ratios recorded`);
}

await ((process.env['BENCH_RECORD'] ?? '') === '' ? guard() : recordRatios());
