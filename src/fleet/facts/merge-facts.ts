import { compareText } from '../../base/text/compare-text.ts';
import { counted } from '../../base/text/counted.ts';
import { REPLY_API_VERSION } from '../../explain/replies.ts';
import type { Compared, FleetReply, SilentNode } from '../fleet-replies.ts';
import { compareNodes } from './compare-nodes.ts';
import type { Facts } from './facts.ts';

/** Merges what nodes answer. `differencesAreFaults`: whether all nodes should be alike. */
export function mergeFacts<Kind extends string>(
  kind: Kind,
  answers: readonly Facts[],
  silent: readonly SilentNode[],
  differencesAreFaults: boolean,
): FleetReply<Kind> & Compared {
  const compared = compareNodes(answers);
  const faulty = differencesAreFaults
    ? compared.differing.length
    : answers.filter(({ faults }) => faults.length > 0).length;
  return {
    ...fleetReply(kind, answers.length, silent, {
      ok: faulty === 0,
      verdict: alikeText(answers.length, compared.differing.length),
    }),
    ...compared,
  };
}

/** The fields that every reply about many nodes has. `verdict` is about those that answered. */
export function fleetReply<Kind extends string>(
  kind: Kind,
  answered: number,
  silent: readonly SilentNode[],
  { ok, verdict }: { readonly ok: boolean; readonly verdict: string },
): FleetReply<Kind> {
  const asked = answered + silent.length;
  const missing = silent.length === 0 ? [] : [`${silent.length} ${silent.length === 1 ? 'does' : 'do'} not answer`];
  return {
    apiVersion: REPLY_API_VERSION,
    kind,
    ok: ok && answered > 0 && silent.length === 0,
    verdict:
      asked === 0
        ? 'no Pod of kube-ipvs-proxy is found'
        : `${counted(asked, 'node')}: ${[...missing, ...(answered === 0 ? [] : [verdict])].join(', ')}`,
    asked,
    answered,
    silent: silent.toSorted((a, b) => compareText(a.node, b.node)),
  };
}

function alikeText(answered: number, differing: number): string {
  if (differing === 0) return 'all that answer are alike and as wanted';
  const verb = differing === 1 ? 'differs from the others or is' : 'differ from the others or are';
  return `${differing} ${verb} not as wanted, ${answered - differing} alike`;
}
