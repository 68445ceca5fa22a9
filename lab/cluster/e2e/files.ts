import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { type Page, e2ePage } from './page.ts';
import { REASONS } from './reasons.ts';
import { type Kept, toJson } from './results.ts';

const RESULTS = new URL('../../results/', import.meta.url);
const JSON_FILE = new URL('e2e.json', RESULTS);
const PAGE_FILE = new URL('e2e.md', RESULTS);

export function readKept(): Kept {
  return existsSync(JSON_FILE) ? (JSON.parse(readFileSync(JSON_FILE, 'utf8')) as Kept) : { runs: [], results: [] };
}

/** Writes lab/results/e2e.json and the page that follows from it. */
export function publish(kept: Kept): Page {
  writeFileSync(JSON_FILE, toJson(kept));
  const page = e2ePage(kept, REASONS);
  writeFileSync(PAGE_FILE, page.text);
  return page;
}
