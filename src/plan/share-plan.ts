import { hasSameTraits } from '../state/address-traits.ts';
import { formatEncapsulation } from '../base/service/service-requests.ts';
import { EMPTY } from '../base/trim-capacity.ts';
import { hasSameIdentity, isSameServer } from '../state/real-server.ts';
import { compareVirtualServer, hasSameSettings } from '../state/virtual-server.ts';
import { compareEntry } from './entry-order.ts';
import type {
  PlannedHairpin,
  PlannedLocalNodePort,
  PlannedUdp,
  PlannedVirtualServer,
  ServicePlan,
} from './service-plan.ts';

/**
 * Returns a plan equal to `plan` that reuses equal parts of `before`. Most of a plan stays the same when endpoints
 * change, and NodePlan skips parts that are identical (===).
 */
export function sharePlan(plan: ServicePlan, before: ServicePlan | undefined): ServicePlan {
  if (before === undefined) return plan;
  const { localNodePorts } = plan;
  const addresses = shareList(plan.addresses, before.addresses, Object.is);
  return {
    ...plan,
    virtualServers: shareList(plan.virtualServers, before.virtualServers, samePlanned),
    addresses,
    closed: plan.closed === plan.addresses ? addresses : shareList(plan.closed, before.closed, Object.is),
    hairpins: shareList(plan.hairpins, before.hairpins, sameHairpin),
    entries: shareList(plan.entries, before.entries, (a, b) => compareEntry(a, b) === 0),
    udp: shareList(plan.udp, before.udp, sameUdp),
    ...(localNodePorts === undefined
      ? {}
      : { localNodePorts: shareList(localNodePorts, before.localNodePorts ?? EMPTY, sameLocalNodePort) }),
  };
}

/** Compares items at equal indexes. The lists are sorted, so items match up to the first insertion or removal. */
function shareList<T>(list: readonly T[], before: readonly T[], equal: (a: T, b: T) => boolean): readonly T[] {
  if (list.length === 0) return list;
  const shared = list.map((item, at) => {
    const known = before[at];
    return known !== undefined && equal(item, known) ? known : item;
  });
  return sameElements(shared, before, Object.is) ? before : shared;
}

function samePlanned(a: PlannedVirtualServer, b: PlannedVirtualServer): boolean {
  return (
    compareVirtualServer(a.virtualServer, b.virtualServer) === 0 &&
    hasSameSettings(a.virtualServer, b.virtualServer) &&
    hasSameTraits(a.traits, b.traits) &&
    a.portName === b.portName &&
    a.drainTimeout === b.drainTimeout &&
    sameDirect(a.direct, b.direct) &&
    sameElements(a.realServers, b.realServers, isSameServer)
  );
}

function sameDirect(a: PlannedVirtualServer['direct'], b: PlannedVirtualServer['direct']): boolean {
  if (a === undefined || b === undefined) return a === b;
  return (
    a.method === b.method &&
    formatEncapsulation(a.encapsulation) === formatEncapsulation(b.encapsulation) &&
    sameElements(a.pods, b.pods, Object.is)
  );
}

function sameHairpin(a: PlannedHairpin, b: PlannedHairpin): boolean {
  return (
    a.portName === b.portName && a.protocol === b.protocol && sameElements(a.endpoints, b.endpoints, hasSameIdentity)
  );
}

function sameUdp(a: PlannedUdp, b: PlannedUdp): boolean {
  return compareVirtualServer(a.id, b.id) === 0 && sameElements(a.answering, b.answering, isSameServer);
}

function sameLocalNodePort(a: PlannedLocalNodePort, b: PlannedLocalNodePort): boolean {
  return (
    compareVirtualServer(a, b) === 0 &&
    a.portName === b.portName &&
    a.scheduler === b.scheduler &&
    a.affinitySeconds === b.affinitySeconds &&
    sameElements(a.realServers, b.realServers, isSameServer)
  );
}

export function sameElements<T>(a: readonly T[], b: readonly T[], equal: (a: T, b: T) => boolean): boolean {
  return (
    a.length === b.length &&
    a.every((item, at) => {
      const other = b[at];
      return other !== undefined && equal(item, other);
    })
  );
}
