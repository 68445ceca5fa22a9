import { counted } from '../../base/text/counted.ts';
import type { NamespacedName } from '../../base/service/names.ts';
import type { OtherFindings } from './other-findings.ts';
import type { PacketPath } from './packet-path.ts';
import type { PacketEndpoint, PacketReply } from '../replies.ts';

export interface VerdictFacts {
  /** From where to where. */
  readonly head: string;
  readonly way: Pick<PacketPath, 'before' | 'disposition' | 'endpoints'>;
  readonly endpoints: readonly PacketEndpoint[];
  readonly service: NamespacedName | undefined;
  /** The commands that would bring the kernel to the plan. */
  readonly commands: readonly string[];
  readonly others: Pick<OtherFindings, 'rules' | 'stops'>;
}

type Verdict = Pick<PacketReply, 'ok' | 'verdict' | 'result'>;

/** Says in one sentence whether the packet arrives, where, and if not, what stops it. */
export function packetVerdict(facts: VerdictFacts): Verdict {
  const { head, commands, others } = facts;
  const { result, text } = resultOf(facts);
  const differs =
    commands.length === 0
      ? ''
      : `; this is the plan, from which the kernel differs here (${counted(commands.length, 'command')} below)`;
  const possible = others.stops === undefined ? others.rules.length : 0;
  const may = possible === 0 ? '' : `; ${counted(possible, 'rule')} of other programs may match (below)`;
  return { ok: result === 'arrives' && commands.length === 0, result, verdict: `${head} ${text}${may}${differs}` };
}

interface Result {
  readonly result: PacketReply['result'];
  readonly text: string;
}

function resultOf({ way, endpoints, service, others }: VerdictFacts): Result {
  const chain = way.before.at(-1)?.chain ?? '';
  const { disposition } = way;
  if (others.stops !== undefined && disposition !== 'DROP' && disposition !== 'REJECT') return others.stops;
  switch (disposition) {
    case 'DROP':
      return { result: 'dropped', text: `is dropped by ${chain}: it is not in the source ranges of ${service}` };
    case 'REJECT':
      return { result: 'refused', text: `is refused by ${chain}: no Service has this port of the address` };
    case 'no endpoint':
      return { result: 'refused', text: `is refused: ${service} has no endpoint for it on this node` };
    case 'local':
      return { result: 'not served', text: 'reaches no Service: it is left to the programs of this node' };
    case 'forwarded':
      return { result: 'not served', text: 'reaches no Service: this node sends it on to another host' };
    case 'scheduled':
      return scheduled(endpoints, way.endpoints.find((endpoint) => endpoint.stoppedAt !== undefined)?.stoppedAt);
  }
}

function scheduled(endpoints: readonly PacketEndpoint[], stoppedAt: string | undefined): Result {
  const answering = endpoints.filter(({ answers }) => answers);
  const [only] = endpoints;
  const which = endpoints.length === 1 && only !== undefined ? only.at : `one of ${endpoints.length} endpoints`;
  if (answering.length === endpoints.length) {
    const see = endpoints.length === 1 ? 'which sees' : 'which see';
    return { result: 'arrives', text: `reaches ${which}, ${see} ${seenText(endpoints)}` };
  }
  const lost = endpoints.length - answering.length;
  const some = `reaches ${which}, of which ${lost} cannot answer: `;
  const result = answering.length === 0 ? 'no answer' : 'arrives in part';
  if (stoppedAt !== undefined) {
    const settings = 'net.ipv4.conf.IF.forwarding, net.ipv6.conf.all.forwarding';
    const why = `replies that arrive on ${stoppedAt} are not forwarded (${settings})`;
    return {
      result,
      text: lost < endpoints.length ? `${some}${why}` : `gets no answer: it reaches ${which}, but ${why}`,
    };
  }
  const why = 'unmasqueraded, so replies from other nodes do not return through this node';
  return {
    result,
    text: lost < endpoints.length ? `${some}it is ${why}` : `gets no answer: it reaches ${which} ${why}`,
  };
}

/** Returns the source addresses, the most frequent ones first. */
function seenText(endpoints: readonly PacketEndpoint[]): string {
  const counts = Map.groupBy(endpoints, ({ sees }) => sees);
  const sorted = [...counts].toSorted(([, a], [, b]) => b.length - a.length);
  if (sorted.length === 1) return sorted.map(([sees]) => sees).join('');
  return sorted.map(([sees, group]) => `${sees} (${group.length} of them)`).join(' or ');
}
