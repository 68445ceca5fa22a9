import { existsSync, readFileSync, readdirSync, writeFileSync } from 'node:fs';
import type { Measurement } from './measure.ts';
import { mergeRow, renderReport, toJson } from './report.ts';

const RESULTS = new URL('../results/', import.meta.url);
const JSON_FILE = new URL('performance.json', RESULTS);
const PAGE = new URL('performance.md', RESULTS);
const NOTES = new URL('../notes/', import.meta.url);
const TEMPLATE = new URL('performance.template.md', import.meta.url);

export function lastMeasured(): Measurement[] {
  return existsSync(JSON_FILE) ? (JSON.parse(readFileSync(JSON_FILE, 'utf8')) as Measurement[]) : [];
}

/** The page as lab/results/performance.json, the template and the profiles in lab/notes make it. */
export function performancePage(): string {
  const template = readFileSync(TEMPLATE, 'utf8');
  const profiles = readdirSync(NOTES).filter((name) => /^profiles.*\.md$/.test(name));
  return renderReport({ measured: lastMeasured(), template, profiles: profiles.toSorted() });
}

/** Keeps what a row found, at once: a run that is stopped loses nothing. */
export function publish(row: string, measured: readonly Measurement[], order: readonly string[]): void {
  writeFileSync(JSON_FILE, toJson(mergeRow(lastMeasured(), row, measured, order)));
  writeFileSync(PAGE, performancePage());
}
