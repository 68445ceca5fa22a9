import { planRules } from '../../plan/ipvs/plan-rules.ts';
import type { Packet } from './packet.ts';
import { type PacketPlane, type PlaneFacts, inTables, stagesUntranslated } from './packet-plane.ts';
import { type Decision, type Hook, type HookWalk, type MatchedRule, walkHook } from './rule-walk.ts';
import { plannedSets } from './set-match.ts';

type Stage = readonly [table: 'mangle' | 'nat' | 'filter', hook: Hook];

/** The hooks before IPVS in which we have rules, in the order of their priorities. */
const SENT_HERE: readonly Stage[] = [
  ['mangle', 'OUTPUT'],
  ['nat', 'OUTPUT'],
];
const RECEIVED: readonly Stage[] = [
  ['nat', 'PREROUTING'],
  ['filter', 'INPUT'],
];
/**
 * The hooks of packets that no virtual server takes. Packets of the node to itself are sent, then received; table nat
 * sees them once.
 */
const SENT_TO_ITSELF: readonly Stage[] = [...SENT_HERE, ['filter', 'OUTPUT'], ['filter', 'INPUT']];
const SENT_AWAY: readonly Stage[] = [...SENT_HERE, ['filter', 'OUTPUT'], ['nat', 'POSTROUTING']];
const FORWARDED: readonly Stage[] = [
  ['nat', 'PREROUTING'],
  ['filter', 'FORWARD'],
  ['nat', 'POSTROUTING'],
];
/** IPVS sends the packet like one of a local program. */
const TO_ENDPOINT = [
  ...inTables(['raw', 'mangle', 'filter', 'security'], 'OUTPUT'),
  ['mangle', 'POSTROUTING'],
] as const;

/**
 * Takes a packet through the planned rules and sets of ipvs mode. IPVS takes packets to local addresses after filter
 * INPUT, and those of the node itself after nat OUTPUT.
 */
export function ipvsPackets({ family, config, plan, planned }: PlaneFacts): PacketPlane {
  const rules = planRules(config, family);
  const sets = plannedSets(plan, family);
  const ours = new Set(rules.chains.map(({ table, name }) => `${table} ${name}`));
  const walk = (stages: readonly Stage[], first: Packet): HookWalk => {
    const matched: MatchedRule[] = [];
    let packet = first;
    let decision: Decision = 'none';
    for (const [table, hook] of stages) {
      const hasInput = hook === 'PREROUTING' || hook === 'INPUT' || hook === 'FORWARD';
      const seen = hasInput ? packet : { ...packet, inInterface: undefined };
      const found = walkHook(rules, table, hook, seen, sets);
      matched.push(...found.matched);
      packet = { ...packet, mark: found.packet.mark };
      decision = found.decision;
      if (decision === 'DROP' || decision === 'REJECT') break;
    }
    return { matched, decision, packet };
  };
  return {
    takes: ({ sourceLocal, destinationLocal }) => sourceLocal || destinationLocal,
    before: (packet) => walk(stagesOf(packet, planned !== undefined), packet),
    after: (packet) => walk([['nat', 'POSTROUTING']], packet),
    taking: ({ sourceLocal }) => ({ hook: sourceLocal ? 'OUTPUT' : 'INPUT', table: 'ipvs', entries: [] }),
    others: (packet) => ({ ...stagesUntranslated(packet), toEndpoint: () => TO_ENDPOINT, ours }),
  };
}

function stagesOf({ sourceLocal, destinationLocal }: Packet, isPlanned: boolean): readonly Stage[] {
  if (!sourceLocal) return destinationLocal ? RECEIVED : FORWARDED;
  if (isPlanned) return SENT_HERE;
  return destinationLocal ? SENT_TO_ITSELF : SENT_AWAY;
}
