import { counted } from '../../base/text/counted.ts';
import { formatIp } from '../../base/ip.ts';
import type { OtherRules } from '../../state/rules/other-rules.ts';
import type { Route } from '../../state/route.ts';
import type { RuleSet } from '../../state/rules/rule-set.ts';
import { type OtherStage, walkOtherRules } from './other-rule-walk.ts';
import type { Packet } from './packet.ts';
import type { EndpointPath, PacketPath } from './packet-path.ts';
import type { OtherRule, PacketReply } from '../replies.ts';

export interface OtherFacts {
  readonly others: OtherRules;
  readonly ours: RuleSet;
  readonly packet: Packet;
  readonly isOwn: boolean;
  readonly way: PacketPath;
  /** The route to the destination. */
  readonly route: Route | undefined;
  /** Whether the destination must be local by the plan, and the kernel lacks nothing that makes it so. */
  readonly mustBeLocal: boolean;
}

/** What keeps the packet from the way that the plan gives it. */
export interface OtherFindings {
  readonly rules: readonly OtherRule[];
  /** Absent if nothing is known to stop the packet. */
  readonly stops?: { readonly result: PacketReply['result']; readonly text: string };
  readonly notes: readonly string[];
}

/** Those before IPVS takes the packet, or all if it does not. A packet without a mark passes `early` first. */
const STAGES: Readonly<
  Record<string, { readonly early: readonly OtherStage[]; readonly late: readonly OtherStage[] }>
> = {
  sent: {
    early: [
      ['raw', 'OUTPUT'],
      ['mangle', 'OUTPUT'],
    ],
    late: [['nat', 'OUTPUT']],
  },
  received: {
    early: [
      ['raw', 'PREROUTING'],
      ['mangle', 'PREROUTING'],
    ],
    late: [
      ['nat', 'PREROUTING'],
      ['mangle', 'INPUT'],
      ['filter', 'INPUT'],
      ['security', 'INPUT'],
    ],
  },
  forwarded: {
    early: [
      ['raw', 'PREROUTING'],
      ['mangle', 'PREROUTING'],
    ],
    late: [
      ['nat', 'PREROUTING'],
      ['mangle', 'FORWARD'],
      ['filter', 'FORWARD'],
      ['security', 'FORWARD'],
    ],
  },
};

/** The hooks on the way to an endpoint: IPVS sends the packet like one of a local program. */
const TO_ENDPOINT: readonly OtherStage[] = [
  ['raw', 'OUTPUT'],
  ['mangle', 'OUTPUT'],
  ['filter', 'OUTPUT'],
  ['security', 'OUTPUT'],
  ['mangle', 'POSTROUTING'],
];
/** Bounds the work. Rules about single endpoints beyond these are not found. */
const MOST_WALKED = 50;

const MOST_LISTED = 20;

const RESULTS: Readonly<Record<OtherRule['effect'], PacketReply['result']>> = {
  drops: 'dropped',
  refuses: 'refused',
  redirects: 'not served',
  queues: 'not served',
  'does not track': 'not served',
};

const PASSIVE: Readonly<Record<OtherRule['effect'], string>> = {
  drops: 'dropped',
  refuses: 'refused',
  redirects: 'redirected',
  queues: 'passed to a program',
  'does not track': 'not tracked',
};

/** Looks for what other programs do to the packet: rules of iptables, virtual servers by firewall mark, and routes. */
export function otherFindings(facts: OtherFacts): OtherFindings {
  const { others, packet, way, route, mustBeLocal } = facts;
  const before = walkBefore(facts);
  const after = walkAfter(facts);
  const rules = [...before.rules, ...after];
  const isTaken = way.fate === 'scheduled' || way.fate === 'no endpoint';
  const decisive = rules.find(({ matches, effect }) => matches && effect !== 'does not track');
  const common = { rules: rules.slice(0, MOST_LISTED), notes: notesOf(rules, before.marks, others, isTaken) };
  if (decisive !== undefined) return { ...common, stops: stopOf(decisive) };
  if (isTaken && !before.marks && way.mark !== 0 && others.marks.includes(way.mark)) {
    const text = `is taken by a virtual server of another program for firewall mark ${way.mark} (ipvsadm -f ${way.mark})`;
    return { ...common, stops: { result: 'not served', text } };
  }
  if (mustBeLocal && route?.local !== true) {
    const to = formatIp(packet.destination);
    const where = route === undefined ? 'nowhere' : `to ${route.interfaceName}`;
    const text = `is not delivered to this node: the kernel routes ${to} ${where} (ip rule; ip route get ${to})`;
    return { ...common, stops: { result: 'not served', text } };
  }
  return common;
}

function walkBefore({ others, ours, packet, isOwn, way }: OtherFacts): ReturnType<typeof walkOtherRules> {
  const { early, late } = STAGES[isOwn ? 'sent' : packet.destinationLocal ? 'received' : 'forwarded'] ?? NO_STAGES;
  const first = walkOtherRules(others, ours, early, packet);
  if (first.rules.some(({ matches, effect }) => matches && effect !== 'does not track')) return first;
  const second = walkOtherRules(others, ours, late, { ...packet, mark: way.mark }, first.marks);
  return { rules: [...first.rules, ...second.rules], marks: second.marks };
}

const NO_STAGES = { early: [], late: [] };

/** A rule that stops packets to some endpoints only may match: the scheduler chooses the endpoint. */
function walkAfter({ others, ours, packet, way }: OtherFacts): OtherRule[] {
  const counts = new Map<string, { readonly rule: OtherRule; count: number }>();
  const walked = way.endpoints.slice(0, MOST_WALKED);
  for (const { server } of walked) {
    const sent = { ...packet, ...towards(server), mark: way.mark, inInterface: undefined };
    for (const rule of walkOtherRules(others, ours, TO_ENDPOINT, sent).rules) {
      const key = `${rule.table} ${rule.chain} ${rule.rule} ${rule.matches}`;
      const known = counts.get(key);
      if (known === undefined) counts.set(key, { rule, count: 1 });
      else known.count += 1;
    }
  }
  return Array.from(counts.values(), ({ rule, count }) => ({
    ...rule,
    matches: rule.matches && count === way.endpoints.length,
  }));
}

function towards({ address: destination, port }: EndpointPath['server']) {
  return { destination, port, destinationLocal: false };
}

function stopOf({ table, chain, rule, effect }: OtherRule): NonNullable<OtherFindings['stops']> {
  return {
    result: RESULTS[effect],
    text: `is ${PASSIVE[effect]} by a rule of another program in ${table} ${chain}: ${rule}`,
  };
}

function notesOf(
  rules: readonly OtherRule[],
  marks: boolean,
  { marks: servers }: OtherRules,
  isTaken: boolean,
): string[] {
  const more = rules.length - MOST_LISTED;
  const notes = more <= 0 ? [] : [`${counted(more, 'more rule')} of other programs may match`];
  if (!isTaken || !marks || servers.length === 0) return notes;
  return [
    ...notes,
    'a rule of another program may set a firewall mark, and virtual servers of IPVS for marks ' +
      `${servers.slice(0, MOST_LISTED).join(', ')} take such packets first`,
  ];
}
