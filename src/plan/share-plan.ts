import { sameRealServer } from '../state/real-server.ts';
import { compareVirtualServer, sameVirtualServer } from '../state/virtual-server.ts';
import { compareEntry } from './entry-order.ts';
import type { PlannedUdp, PlannedVirtualServer, ServicePlan } from './service-plan.ts';

/**
 * A plan equal to `plan`, made of parts of the plan before it wherever these are equal: most of a service stays as it is when its endpoints
 * change. What two plans share (===) needs no look at what is in it.
 */
export function sharePlan(plan: ServicePlan, before: ServicePlan | undefined): ServicePlan {
  if (before === undefined) return plan;
  return {
    ...plan,
    virtualServers: shareList(
      plan.virtualServers,
      before.virtualServers,
      (a, b) => compareVirtualServer(a.virtualServer, b.virtualServer) === 0 && samePlanned(a, b),
    ),
    addresses: shareList(plan.addresses, before.addresses, Object.is),
    entries: shareList(plan.entries, before.entries, (a, b) => compareEntry(a, b) === 0),
    udp: shareList(plan.udp, before.udp, sameUdp),
  };
}

/** Plans are sorted: what is equal stands in the same place, unless something came or went before it. */
function shareList<T>(list: readonly T[], before: readonly T[], equal: (a: T, b: T) => boolean): readonly T[] {
  if (list.length === 0) return list;
  const shared = list.map((item, at) => {
    const known = before[at];
    return known !== undefined && equal(item, known) ? known : item;
  });
  return samePlaces(shared, before, Object.is) ? before : shared;
}

/** Wants the same of a virtual server, which is that of both. */
export function samePlanned(a: PlannedVirtualServer, b: PlannedVirtualServer): boolean {
  return (
    a === b ||
    (sameVirtualServer(a.virtualServer, b.virtualServer) &&
      samePlaces(
        a.realServers,
        b.realServers,
        (one, other) => one.weight === other.weight && sameRealServer(one, other),
      ))
  );
}

function sameUdp(a: PlannedUdp, b: PlannedUdp): boolean {
  return compareVirtualServer(a.id, b.id) === 0 && samePlaces(a.answering, b.answering, sameRealServer);
}

function samePlaces<T>(a: readonly T[], b: readonly T[], equal: (a: T, b: T) => boolean): boolean {
  return (
    a.length === b.length &&
    a.every((item, at) => {
      const other = b[at];
      return other !== undefined && equal(item, other);
    })
  );
}
