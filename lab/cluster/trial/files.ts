import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { trialsPage } from './page.ts';
import { type KeptTrials, trialsToJson } from './results.ts';

const RESULTS = new URL('../../results/', import.meta.url);
const JSON_FILE = new URL('trials.json', RESULTS);
const PAGE_FILE = new URL('trials.md', RESULTS);

export function readTrials(): KeptTrials {
  return existsSync(JSON_FILE) ? (JSON.parse(readFileSync(JSON_FILE, 'utf8')) as KeptTrials) : { trials: [] };
}

/** Writes lab/results/trials.json and the page that follows from it. */
export function publishTrials(kept: KeptTrials): void {
  writeFileSync(JSON_FILE, trialsToJson(kept));
  writeFileSync(PAGE_FILE, trialsPage(kept));
}
