import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { trialsPage } from './page.ts';
import { type KeptTrials, trialsToJson } from './results.ts';

const DOCS = new URL('../../../docs/', import.meta.url);
const JSON_FILE = new URL('trials.json', DOCS);
const PAGE_FILE = new URL('trials.md', DOCS);

export function readTrials(): KeptTrials {
  return existsSync(JSON_FILE) ? (JSON.parse(readFileSync(JSON_FILE, 'utf8')) as KeptTrials) : { trials: [] };
}

/** Writes docs/trials.json and the page that follows from it. */
export function publishTrials(kept: KeptTrials): void {
  writeFileSync(JSON_FILE, trialsToJson(kept));
  writeFileSync(PAGE_FILE, trialsPage(kept));
}
