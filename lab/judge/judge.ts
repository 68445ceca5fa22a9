import { errorText } from '../../src/base/text/error-text.ts';
import type { Case } from './case/case.ts';
import { withOneEntry } from './case/one-entry.ts';
import { type JudgedMode, type Mismatch, mismatches } from './compare.ts';
import type { Upstream } from './upstream.ts';

/** Upstream plays a case that differs once more, so often: with the result that we have, its map order may be rare. */
const MORE_RUNS = 60;

export interface Verdict {
  /** Names of the intended differences, once for each fact that they explain. */
  readonly explained: readonly string[];
  readonly unexplained: readonly Mismatch[];
}

/** An intended difference in every mode, which needs another case to be undone: see withOneEntry. */
export const ONE_ENTRY = {
  name: 'two endpoints with one address',
  section: 'two endpoints with the same address, neither of which terminates (in one EndpointSlice or in two)',
};

/** Plays a case on both sides and compares the states after each step. Throws if upstream cannot play it. */
export async function judge<State>(mode: JudgedMode<State>, upstream: Upstream<State>, given: Case): Promise<Verdict> {
  const first = await verdictOf(mode, upstream, given);
  if (first.unexplained.length === 0) return first;
  const single = withOneEntry(given);
  if (single === undefined) return await verdictOf(mode, upstream, { ...given, runs: MORE_RUNS });
  const changed = mismatches(mode, given, await mode.playOurs(given), [await mode.playOurs(single)]);
  if (changed.length > 0) return { explained: [], unexplained: changed };
  const second = await verdictOf(mode, upstream, single);
  const { explained, unexplained } =
    second.unexplained.length === 0 ? second : await verdictOf(mode, upstream, { ...single, runs: MORE_RUNS });
  return { explained: [...explained, ONE_ENTRY.name], unexplained };
}

async function verdictOf<State>(mode: JudgedMode<State>, upstream: Upstream<State>, given: Case): Promise<Verdict> {
  const results = await upstream.play(given);
  const ours = await mode.playOurs(given).catch((error: unknown) => errorText(error));
  if (typeof ours === 'string') return { explained: [], unexplained: [refusal(given, ours)] };
  const explained: string[] = [];
  const unexplained: Mismatch[] = [];
  for (const mismatch of mismatches(mode, given, ours, results)) {
    const names = mode.explain(mismatch);
    if (names === undefined) unexplained.push(mismatch);
    else explained.push(...names);
  }
  return { explained, unexplained };
}

/** Our side cannot play what upstream can. */
function refusal(given: Case, ours: string): Mismatch {
  return { given, step: 0, fact: 'error', ours, theirs: [undefined], oursAll: new Map(), theirsAll: [] };
}

/** What kind of thing differs, without its address: two cases with the same kind probably have the same cause. */
export function kindOf({ fact, ours, theirs }: Mismatch): string {
  const [noun] = /^(entry \S+|virtual server|packet from [^(]+(?= \()|\w+)/.exec(fact) ?? [fact];
  if (ours === undefined) return `${noun}, only upstream's`;
  return theirs.every((value) => value === undefined) ? `${noun}, only ours` : `${noun}, another value`;
}

export function mismatchLines({ step, fact, ours, theirs }: Mismatch): string[] {
  const text = (value: string | undefined): string => value ?? 'nothing';
  return [
    `  after step ${step}: ${fact}`,
    `    ours:     ${text(ours)}`,
    `    upstream: ${theirs.map(text).join(' | or ')}`,
  ];
}
