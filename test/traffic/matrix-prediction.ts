import { ask } from '../../src/command/ask.ts';
import type { PacketReply } from '../../src/explain/replies.ts';
import type { Bed } from '../bed/bed.ts';
import { type DualStack, podAddress } from '../bed/address-plan.ts';
import { formatHostPort } from '../../src/base/ip.ts';
import { querySocketOf } from '../support/daemon.ts';
import { address } from '../support/state.ts';
import { POD_PORT, type Protocol } from './cluster-objects.ts';
import { type Cell, type Family, targetOf } from './matrix-table.ts';

/** What is seen of a failure, by what `explain --from` says of it. A packet that is dropped is not answered. */
const FAILURES: Readonly<Record<Exclude<PacketReply['result'], 'arrives' | 'arrives in part'>, string>> = {
  refused: 'refused',
  dropped: 'no answer',
  'no answer': 'no answer',
  'not served': 'not served',
};

/** What `explain --from` says of one way: "pod-0-0 sees 10.201.0.1, pod-1-0 sees 10.200.0.10", or how it fails. */
export async function predicted(
  bed: Bed,
  { case: { service }, source, destination }: Cell,
  from: DualStack,
  protocol: Protocol,
  family: Family,
): Promise<string> {
  const { address: to, port } = targetOf(service, destination, family);
  const query = new URLSearchParams({ from: from[family], at: `${formatHostPort(address(to), port)}/${protocol}` });
  const node = bed.node(takingNode(source, destination));
  const { result, endpoints } = await ask<PacketReply>(querySocketOf(node), `/v1/packet?${query.toString()}`);
  if (result !== 'arrives' && result !== 'arrives in part') return FAILURES[result];
  return answersText(endpoints.map(({ at, sees, answers }) => [podAt(at, family), answers ? sees : 'nothing']));
}

export function answersText(answers: readonly (readonly [endpoint: string, sees: string])[]): string {
  return [...new Set(answers.map(([endpoint, sees]) => `${endpoint} sees ${sees}`))].sort().join(', ');
}

/** The node whose virtual server takes the connections: that of a node port's address, or else the client's own. */
function takingNode(source: string, destination: string): number {
  const at = /node-(\d)$/.exec(destination) ?? /^(?:pod|node)-(\d)/.exec(source);
  return Number(at?.[1] ?? 0);
}

function podAt(at: string, family: Family): string {
  for (const node of [0, 1]) {
    if (at === formatHostPort(address(podAddress(node, 0)[family]), POD_PORT)) return `pod-${node}-0`;
  }
  return at;
}
