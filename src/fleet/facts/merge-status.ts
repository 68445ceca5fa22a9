import { compareText } from '../../base/text/compare-text.ts';
import { counted } from '../../base/text/counted.ts';
import { REPLY_API_VERSION } from '../../explain/replies.ts';
import type { FleetStatusReply, SilentNode } from '../fleet-replies.ts';
import { compareNodes } from './compare-nodes.ts';
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
  const compared = compareNodes(answers.map((answer) => withLateSync(answer, usual)));
  const asked = answers.length + silent.length;
  const ok = silent.length === 0 && compared.differing.length === 0 && asked > 0;
  return {
    apiVersion: REPLY_API_VERSION,
    kind: 'FleetStatus',
    ok,
    verdict: `${counted(asked, 'node')}: ${ok ? 'all answer, are alike and as wanted' : whatIsWrong(compared.differing.length, silent.length, asked)}`,
    asked,
    answered: answers.length,
    ...compared,
    silent: silent.toSorted((a, b) => compareText(a.node, b.node)),
    withoutPod: withoutPod.toSorted(compareText),
  };
}

function whatIsWrong(differing: number, silent: number, asked: number): string {
  if (asked === 0) return 'no Pod of kube-ipvs-proxy is found';
  const alike = asked - differing - silent;
  return [
    ...(differing === 0 ? [] : [`${differing} differ or are not as wanted`]),
    ...(silent === 0 ? [] : [`${silent} do not answer`]),
    `${alike} are alike`,
  ].join(', ');
}

function withLateSync(facts: StatusFacts, usual: number | undefined): StatusFacts {
  const { syncAge } = facts;
  if (syncAge === undefined || usual === undefined || syncAge <= usual + MOST_LATE_SECONDS) return facts;
  return { ...facts, faults: [...facts.faults, `last sync ${syncAge} s ago (most: ${usual} s or less)`] };
}

function middleOf(values: readonly number[]): number | undefined {
  return values.toSorted((a, b) => a - b)[Math.floor(values.length / 2)];
}
