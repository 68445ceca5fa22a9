import { counted } from '../../base/text/counted.ts';
import { type IpAddress, formatIp } from '../../base/ip.ts';
import type { OtherRules } from '../../state/rules/other-rules.ts';
import type { Route } from '../../state/route.ts';
import { walkOtherRules } from './other-rule-walk.ts';
import type { Packet } from './packet.ts';
import { type PacketPath, towardsEndpoint } from './packet-path.ts';
import type { OtherStages } from './packet-plane.ts';
import type { OtherRule, PacketReply } from '../replies.ts';
import type { MatchedRule } from './rule-walk.ts';

export interface OtherFacts {
  readonly others: OtherRules;
  readonly stages: OtherStages;
  readonly packet: Packet;
  readonly way: PacketPath;
  readonly routeTo: (address: IpAddress) => Route | undefined;
  /** Whether the kernel is as planned, so that the routes must be, too. */
  readonly isAsPlanned: boolean;
  /** Whether the destination must be local by the plan. */
  readonly mustBeLocal: boolean;
}

/** What other programs do that keeps the packet from its planned path. */
export interface OtherFindings {
  readonly rules: readonly OtherRule[];
  /** Absent if nothing is known to stop the packet. */
  readonly stops?: { readonly result: PacketReply['result']; readonly text: string };
  readonly notes: readonly string[];
}

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
  const { others, packet, way, routeTo, isAsPlanned, mustBeLocal } = facts;
  const route = routeTo(packet.destination);
  const before = walkBefore(facts);
  const after = walkAfter(facts);
  const rules = [...before.rules, ...after];
  const isTaken = way.disposition === 'scheduled' || way.disposition === 'no endpoint';
  const decisive = rules.find(({ matches, effect }) => matches && effect !== 'does not track');
  const common = { rules: rules.slice(0, MOST_LISTED), notes: notesOf(rules, before.marks, others, isTaken) };
  if (decisive !== undefined) return { ...common, stops: stopOf(decisive) };
  if (isTaken && !before.marks && way.mark !== 0 && others.marks?.includes(way.mark) === true) {
    const text = `is taken by a virtual server of another program for firewall mark ${way.mark} (ipvsadm -f ${way.mark})`;
    return { ...common, stops: { result: 'not served', text } };
  }
  if (isAsPlanned && mustBeLocal && route?.local !== true) {
    const to = formatIp(packet.destination);
    const where = route === undefined ? 'nowhere' : `to ${route.interfaceName}`;
    const text = `is not delivered to this node: the kernel routes ${to} ${where} (ip rule; ip route get ${to})`;
    return { ...common, stops: { result: 'not served', text } };
  }
  if (isAsPlanned && packet.sourceLocal && route === undefined) {
    const to = formatIp(packet.destination);
    const text = `is not sent: this node has no route to ${to} (ip route get ${to})`;
    return { ...common, stops: { result: 'not served', text } };
  }
  return common;
}

function walkBefore({ others, stages, packet, way }: OtherFacts): ReturnType<typeof walkOtherRules> {
  const ours = { chains: stages.ours, accepting: acceptingChains(way.before) };
  const first = walkOtherRules(others, ours, stages.early, packet);
  if (first.rules.some(({ matches, effect }) => matches && effect !== 'does not track')) return first;
  const second = walkOtherRules(others, ours, stages.late, { ...packet, mark: way.mark }, first.marks);
  return { rules: [...first.rules, ...second.rules], marks: second.marks };
}

/** Our chains that accept the packet in table filter, so that no rule behind them sees it. */
function acceptingChains(matched: readonly MatchedRule[]): ReadonlySet<string> {
  const accepting = matched.filter(({ table, rule }) => table === 'filter' && rule.at(-1)?.endsWith('ACCEPT') === true);
  return new Set(accepting.map(({ table, chain }) => `${table} ${chain}`));
}

/** A rule that stops packets to some endpoints only may match: the scheduler chooses the endpoint. */
function walkAfter({ others, stages, packet, way, routeTo }: OtherFacts): OtherRule[] {
  const counts = new Map<string, { readonly rule: OtherRule; count: number }>();
  const walked = way.endpoints.slice(0, MOST_WALKED);
  for (const { server, after } of walked) {
    const isOnNode = routeTo(server.address)?.local === true;
    const sent = { ...packet, ...towardsEndpoint(server), mark: way.mark, destinationLocal: isOnNode };
    const ours = { chains: stages.ours, accepting: acceptingChains(after) };
    for (const rule of walkOtherRules(others, ours, stages.toEndpoint(isOnNode), sent).rules) {
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

function stopOf({ table, chain, rule, effect }: OtherRule): NonNullable<OtherFindings['stops']> {
  return {
    result: RESULTS[effect],
    text: `is ${PASSIVE[effect]} by a rule of another program in ${table} ${chain}: ${rule}`,
  };
}

function notesOf(
  rules: readonly OtherRule[],
  marks: boolean,
  { marks: servers = [] }: OtherRules,
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
