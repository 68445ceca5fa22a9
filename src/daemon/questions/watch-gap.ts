import type { WatchState } from '../../observe/api-observer.ts';

/** Milliseconds without a watch that are normal, for example while an API server restarts. */
const NORMAL_MS = 30_000;

/** Names the resources whose watch was lost more than 30 s ago, so that their changes are unknown; undefined if there are none. */
export function watchGap(watches: ReadonlyMap<string, WatchState>, now: number): string | undefined {
  const gaps = [...watches].filter(([, { state, since }]) => state !== 'watching' && now - since > NORMAL_MS);
  if (gaps.length === 0) return undefined;
  const longest = Math.max(...gaps.map(([, { since }]) => now - since));
  const resources = gaps.map(([resource]) => resource).join(', ');
  return `the API server has not been watched for ${Math.floor(longest / 1_000)} s, so changes are unknown: ${resources}`;
}
