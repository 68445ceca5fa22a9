import { familyOf } from '../base/ip.ts';
import { isSameServer } from '../state/real-server.ts';
import { type VirtualServerId, hasSameList, virtualServerId } from '../state/virtual-server.ts';
import { CLAIM_RANK } from './claim-rank.ts';
import type { PlannedVirtualServer } from './service-plan.ts';
import { sameElements } from './share-plan.ts';

/**
 * Returns the same virtual servers, of which those of a Service port that have the same real servers share the list of one of
 * them: that at the cluster IP, if it is one. A list that nobody else has is not shared.
 */
export function withSharedLists(servers: readonly PlannedVirtualServer[]): readonly PlannedVirtualServer[] {
  const lenders = new Map<PlannedVirtualServer, PlannedVirtualServer>();
  for (const ofPort of Map.groupBy(servers, portOf).values()) {
    for (const same of sameLists(ofPort)) {
      const lender = same.reduce((best, each) => (rank(each) < rank(best) ? each : best));
      if (same.length > 1 && lender.realServers.length > 0) for (const each of same) lenders.set(each, lender);
    }
  }
  const shared = servers.map((planned) => withList(planned, lenders.get(planned)?.virtualServer));
  return sameElements(shared, servers, Object.is) ? servers : shared;
}

function portOf({ virtualServer: { address, protocol }, portName }: PlannedVirtualServer): string {
  return `${familyOf(address)} ${protocol} ${portName}`;
}

/** Virtual servers of a node port are written after others, together with their port, so that others must not need their list. */
function rank({ traits: { kind } }: PlannedVirtualServer): number {
  return kind === 'nodePort' ? Infinity : CLAIM_RANK[kind];
}

/** A Service port has few different lists: one for each traffic policy. */
function sameLists(ofPort: readonly PlannedVirtualServer[]): readonly (readonly PlannedVirtualServer[])[] {
  const lists: [PlannedVirtualServer, ...PlannedVirtualServer[]][] = [];
  for (const planned of ofPort) {
    const same = lists.find(([first]) => hasSameServers(first, planned));
    if (same === undefined) lists.push([planned]);
    else same.push(planned);
  }
  return lists;
}

function hasSameServers({ realServers: a }: PlannedVirtualServer, { realServers: b }: PlannedVirtualServer): boolean {
  return a === b || sameElements(a, b, isSameServer);
}

function withList(planned: PlannedVirtualServer, lender: VirtualServerId | undefined): PlannedVirtualServer {
  const { list: before, ...virtualServer } = planned.virtualServer;
  const list = lender && virtualServerId(lender);
  if (hasSameList({ list: before }, { list })) return planned;
  return { ...planned, virtualServer: list === undefined ? virtualServer : { ...virtualServer, list } };
}
