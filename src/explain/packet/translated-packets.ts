import { cidrContains } from '../../base/cidr.ts';
import type { IpAddress } from '../../base/ip.ts';
import type { PlannedVirtualServer } from '../../plan/service-plan.ts';
import type { AddressTraits } from '../../state/address-traits.ts';
import type { LocalDetector } from '../../state/rules/rule-settings.ts';
import type { VirtualServerId } from '../../state/virtual-server.ts';
import type { Packet } from './packet.ts';
import {
  type OtherStages,
  type PacketPlane,
  type PlaneFacts,
  inTables,
  stagesReceived,
  stagesUntranslated,
} from './packet-plane.ts';
import type { Hook, MatchedRule } from './rule-walk.ts';

/** A rule of a mode, and the element of a set or map that the packet matches there. */
export type RulePlace = Pick<MatchedRule, 'table' | 'hook' | 'chain'> & {
  readonly rule: string;
  readonly entry?: string;
};

/** The rules of a mode that translates addresses, by purpose. */
export interface RulePlaces {
  /** Leads to the endpoints, or rejects the packet if there is none. */
  readonly taking: (server: PlannedVirtualServer, packet: Packet) => RulePlace;
  /** Drops packets from outside of the source ranges. */
  readonly firewall: (id: VirtualServerId, packet: Packet) => RulePlace;
  /** Rejects packets to ports of service addresses that no Service has; absent: these are not closed. */
  readonly closed?: (address: IpAddress, packet: Packet) => RulePlace;
  readonly mark: (packet: Packet) => RulePlace;
  readonly masquerade: RulePlace;
  /** Accepts marked packets that are forwarded. */
  readonly accept?: RulePlace;
  /** Whether connections of the node itself are masqueraded where clients keep their address. */
  readonly masqueradesOwn: boolean;
  /** Our chains of iptables to which built-in chains lead, each as "table chain". */
  readonly ours: ReadonlySet<string>;
}

/** Follows a packet as the plan describes the virtual server's address: the rules of these modes do the same. */
export function translatedPackets({ family, config, planned, isClosed }: PlaneFacts, places: RulePlaces): PacketPlane {
  const { masqueradeAll, masqueradeMark, localDetectors } = config;
  const marks = (
    packet: Packet,
    { kind, keepsSource }: AddressTraits,
    detector: LocalDetector | undefined,
  ): boolean => {
    // A service address that the node has is the source of its connections to it.
    if (packet.sourceLocal && kind !== 'nodePort' && packet.source === packet.destination) return true;
    if (kind === 'cluster') return masqueradeAll || isOutside(packet, detector);
    return !keepsSource || (packet.sourceLocal && places.masqueradesOwn);
  };
  return {
    takes: () => true,
    before: (packet) => {
      if (planned === undefined) {
        if (!isClosed || places.closed === undefined) return { matched: [], decision: 'none', packet };
        return { matched: [ruleOf(places.closed(packet.destination, packet))], decision: 'REJECT', packet };
      }
      const { traits, virtualServer } = planned;
      if (!admits(traits, packet)) {
        return { matched: [ruleOf(places.firewall(virtualServer, packet))], decision: 'DROP', packet };
      }
      if (planned.realServers.length === 0 || !marks(packet, traits, localDetectors[family])) {
        return { matched: [], decision: 'none', packet };
      }
      const mark = (packet.mark | masqueradeMark) >>> 0;
      return { matched: [ruleOf(places.mark(packet))], decision: 'none', packet: { ...packet, mark } };
    },
    after: ({ mark, source, destination, sourceLocal }) => {
      const isMarked = (mark & masqueradeMark) !== 0;
      // An endpoint that is its own client would otherwise reply to itself.
      if (!isMarked && source !== destination) return { matched: [], decision: 'none' };
      const { accept, masquerade } = places;
      const passed = accept === undefined || sourceLocal ? [masquerade] : [accept, masquerade];
      return { matched: passed.map(ruleOf), decision: 'MASQUERADE' };
    },
    taking: (packet) => {
      if (planned === undefined) throw new Error('no virtual server takes the packet');
      const { hook, table, chain, entry } = places.taking(planned, packet);
      return { hook, table, chain, entries: entry === undefined ? [] : [entry] };
    },
    others: (packet) => ({
      ...(planned === undefined || packet.sourceLocal ? stagesUntranslated(packet) : stagesReceived()),
      toEndpoint: (isOnNode) => toEndpoint(packet, isOnNode),
      ours: places.ours,
    }),
  };
}

function toEndpoint({ sourceLocal }: Packet, isOnNode: boolean): ReturnType<OtherStages['toEndpoint']> {
  if (sourceLocal) return [...inTables(['filter', 'security'], 'OUTPUT'), ...inTables(['mangle'], 'POSTROUTING')];
  if (isOnNode) return inTables(['mangle', 'filter', 'security'], 'INPUT');
  return [...inTables(['mangle', 'filter', 'security'], 'FORWARD'), ...inTables(['mangle'], 'POSTROUTING')];
}

function ruleOf({ rule, entry, ...place }: RulePlace): MatchedRule {
  return { ...place, index: 0, rule: [rule], entries: entry === undefined ? [] : [entry] };
}

function admits({ admitted }: AddressTraits, { source, destination }: Packet): boolean {
  if (admitted === undefined || (admitted.itself && source === destination)) return true;
  return admitted.ranges.some((range) => cidrContains(range, source));
}

/** Whether a client is known to be no Pod of this node or, with a CIDR, no Pod. */
function isOutside({ source, inInterface }: Packet, detector: LocalDetector | undefined): boolean {
  switch (detector?.kind) {
    case undefined:
      return false;
    case 'cidr':
      return !cidrContains(detector.cidr, source);
    case 'bridge':
      return inInterface !== detector.interfaceName;
    case 'interface-prefix':
      return inInterface?.startsWith(detector.prefix) !== true;
  }
}

/** The hook in which a packet first passes our rules. */
export function firstHook({ sourceLocal }: Packet): Hook {
  return sourceLocal ? 'OUTPUT' : 'PREROUTING';
}
