import { existsSync, readFileSync, readdirSync, writeFileSync } from 'node:fs';
import type { Measurement } from './measure.ts';
import { mergeRow, renderReport, toJson } from './report.ts';

const DOCS = new URL('../../docs/', import.meta.url);
const JSON_FILE = new URL('performance.json', DOCS);
const PAGE = new URL('performance.md', DOCS);
const TEMPLATE = new URL('performance.template.md', import.meta.url);

export function lastMeasured(): Measurement[] {
  return existsSync(JSON_FILE) ? (JSON.parse(readFileSync(JSON_FILE, 'utf8')) as Measurement[]) : [];
}

/** The page as docs/performance.json, the template and the profiles beside it make it. */
export function performancePage(): string {
  const template = readFileSync(TEMPLATE, 'utf8');
  const profiles = readdirSync(DOCS).filter((name) => /^profiles.*\.md$/.test(name));
  return renderReport({ measured: lastMeasured(), template, profiles: profiles.toSorted() });
}

/** Keeps what a row found, at once: a run that is stopped loses nothing. */
export function publish(row: string, measured: readonly Measurement[], order: readonly string[]): void {
  writeFileSync(JSON_FILE, toJson(mergeRow(lastMeasured(), row, measured, order)));
  writeFileSync(PAGE, performancePage());
}
