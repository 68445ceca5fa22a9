import { compareText } from '../../base/text/compare-text.ts';
import type { FleetStatusReply, SilentNode } from '../fleet-replies.ts';
import { mergeFacts } from './merge-facts.ts';
import type { StatusFacts } from './status-facts.ts';

/** Seconds by which the last sync of a node may be older than that of most nodes, as in the alert SyncStale. */
const MOST_LATE_SECONDS = 300;

/** Merges the answers of all nodes. Their order does not matter. */
export function mergeStatus(
  answers: readonly StatusFacts[],
  silent: readonly SilentNode[],
  withoutPod: readonly string[],
): FleetStatusReply {
  const usual = middleOf(answers.flatMap(({ syncAge }) => (syncAge === undefined ? [] : [syncAge])));
  const facts = answers.map((answer) => withLateSync(answer, usual));
  return { ...mergeFacts('FleetStatus', facts, silent, true), withoutPod: withoutPod.toSorted(compareText) };
}

function withLateSync(facts: StatusFacts, usual: number | undefined): StatusFacts {
  const { syncAge } = facts;
  if (syncAge === undefined || usual === undefined || syncAge <= usual + MOST_LATE_SECONDS) return facts;
  return { ...facts, faults: [...facts.faults, `last sync ${syncAge} s ago (most: ${usual} s or less)`] };
}

/** Of an even number of values the lesser one: of two nodes, the one that lags is not usual. */
function middleOf(values: readonly number[]): number | undefined {
  return values.toSorted((a, b) => a - b)[Math.floor((values.length - 1) / 2)];
}
