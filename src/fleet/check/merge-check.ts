import { counted } from '../../base/text/counted.ts';
import type { ConnectReply } from '../../explain/node/node-replies.ts';
import { checkedText } from '../facts/checked.ts';
import { fleetReply } from '../facts/merge-facts.ts';
import { compareText } from '../../base/text/compare-text.ts';
import type { FailedPath, FleetCheckReply, SilentNode } from '../fleet-replies.ts';
import type { Older } from '../older.ts';
import type { Target } from './service-targets.ts';

/** What one node tried. */
export interface CheckFacts {
  readonly tried: number;
  readonly failed: readonly FailedPath[];
}

/** Reads the answer of a node. Throws if it does not say what of its targets answers. */
export function checkFacts(
  node: string,
  targets: readonly Target[],
  { connections = [] }: Older<ConnectReply>,
): CheckFacts {
  const outcomes = new Map(connections.map((each) => [each.to, each]));
  const failed = targets.flatMap(({ path, to }): FailedPath[] => {
    const outcome = outcomes.get(to);
    if (outcome === undefined) throw new Error(`its reply does not mention ${to}`);
    return outcome.ok === true
      ? []
      : [{ from: node, path, to, why: checkedText('why', outcome.why ?? 'no reason is given') }];
  });
  return { tried: targets.length, failed };
}

/** Merges what all nodes tried. Their order does not matter. */
export function mergeCheck(
  service: string,
  notes: readonly string[],
  answers: readonly CheckFacts[],
  silent: readonly SilentNode[],
): FleetCheckReply {
  const failed = answers
    .flatMap((answer) => answer.failed)
    .toSorted((a, b) => compareText(a.from, b.from) || compareText(a.to, b.to));
  const tried = answers.reduce((sum, answer) => sum + answer.tried, 0);
  const verdict = `${counted(tried, 'connection')} to ${service} tried, ${failed.length === 0 ? 'all succeed' : `${failed.length} fail`}`;
  return {
    ...fleetReply('FleetCheck', answers.length, silent, { ok: failed.length === 0 && tried > 0, verdict }),
    service,
    tried,
    failed,
    notes,
  };
}
