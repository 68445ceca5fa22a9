import { counted } from '../base/text/counted.ts';
import type { NamespacedName } from '../base/service/names.ts';
import { NOT_FROM_OUTSIDE } from './choice.ts';
import { NO_PORT, type PortUse } from './endpoint-use.ts';
import type { AddressReply, EndpointReply, PortReply, RefusedReply, ServiceReply } from './replies.ts';

type UsedEndpoint = Pick<EndpointReply, 'use' | 'why'>;

/** The properties of a port that decide whether it is served. */
export type ServedPort = Pick<PortReply, 'name' | 'protocol' | 'port' | 'notes'> & {
  readonly endpoints: readonly UsedEndpoint[];
};

type Verdict = Pick<ServiceReply, 'ok' | 'verdict'>;

/** What is wrong with a Service beside its ports. */
interface Wrong {
  readonly refused: readonly RefusedReply[];
  readonly others: readonly string[];
}

/** Returns what a Service lacks most, in one sentence: what would have to be repaired first. */
export function verdictOf(
  name: NamespacedName,
  ports: readonly PortReply[],
  slices: number,
  { refused, others }: Wrong,
): Verdict {
  const wrong = firstFault(ports, slices, refused) ?? others[0];
  if (wrong !== undefined) return { ok: false, verdict: `${name} ${prefixOf(ports)}: ${wrong}` };
  const addresses = ports.reduce((sum, port) => sum + port.addresses.length, 0);
  const all = ports.flatMap(({ endpoints }) => endpoints);
  const used = all.filter(({ use }) => use !== 'none');
  const served = ports.some(({ notes }) => notes.includes(NOT_FROM_OUTSIDE))
    ? 'is served on this node, but not for clients from outside'
    : 'is served on this node';
  return {
    ok: true,
    verdict:
      `${name} ${served}: ${used.length} of ${counted(all.length, 'endpoint')} used ` +
      `at ${counted(addresses, 'address', 'addresses')}, and the kernel is as planned`,
  };
}

/** Returns why ports that have endpoints use none; undefined if there is no such port. */
export function unservedText(name: NamespacedName, ports: readonly ServedPort[]): string | undefined {
  const unserved = ports.find((port) => port.endpoints.length > 0 && !isServed(port));
  return unserved === undefined ? undefined : `${name} ${prefixOf(ports)}: ${whyUnserved(unserved, ports.length)}`;
}

/** Whether no port, some ports, or all ports have an endpoint that is used. */
function prefixOf(ports: readonly ServedPort[]): string {
  const served = ports.filter(isServed).length;
  if (served === 0) return 'does not answer on this node';
  return served < ports.length ? 'answers on this node in part' : 'is not as it should be on this node';
}

export function servedPort({ port, endpoints, notes }: PortUse): ServedPort {
  const { name, protocol, port: number } = port;
  return { name, protocol, port: number, endpoints, notes: notes.map(({ text }) => text) };
}

export function isServed({ endpoints }: Pick<ServedPort, 'endpoints'>): boolean {
  return endpoints.some(({ use }) => use !== 'none');
}

function firstFault(
  ports: readonly PortReply[],
  slices: number,
  [refused, ...further]: readonly RefusedReply[],
): string | undefined {
  if (ports.length === 0) return 'it has no port that can be served';
  if (ports.every(({ addresses }) => addresses.length === 0)) return 'it has no address that this node can serve';
  if (slices === 0) return 'no EndpointSlice belongs to it; check its selector';
  const unserved = ports.find((port) => !isServed(port));
  if (unserved !== undefined) return whyUnserved(unserved, ports.length);
  const unreached = ports.find(({ addresses }) => addresses.some(isEmpty));
  if (unreached !== undefined) return whyUnreached(unreached);
  if (refused !== undefined) {
    const more = further.length === 0 ? '' : ` (and ${counted(further.length, 'more operation')})`;
    return `the kernel refuses ${refused.command}: ${refused.why}${more}`;
  }
  const differing = ports.flatMap(({ addresses }) => addresses).filter(({ state }) => state === 'differs');
  if (differing.length === 0) return undefined;
  const commands = differing.reduce((sum, { commands: all }) => sum + all.length, 0);
  return `the kernel differs from the plan at ${differing[0]?.at} (${counted(commands, 'command')} in all)`;
}

/** Returns why a port uses no endpoint. */
export function whyUnserved({ name, protocol, port, endpoints, notes }: ServedPort, ports: number): string {
  const which = ports === 1 ? '' : `port ${name === '' ? `${port}/${protocol}` : name}: `;
  if (endpoints.length === 0) return `${which}${notes[0] ?? 'its slices have no endpoints; is it scaled to 0?'}`;
  // If no slice has the port, its first note says why.
  if (endpoints.every(({ why = '' }) => why.startsWith(NO_PORT))) return notes[0] ?? `${which}${NO_PORT} such port`;
  const none =
    endpoints.length === 1 ? 'its only endpoint is not used' : `none of its ${endpoints.length} endpoints is used`;
  return `${which}${none}: ${reasons(endpoints)}`;
}

function isEmpty({ state, endpoints }: AddressReply): boolean {
  return endpoints === 0 && state !== 'belongs to another Service';
}

/** Endpoints are used, but not at this address: it has another IP family or another traffic policy. */
function whyUnreached({ addresses, endpoints }: PortReply): string {
  const unused = endpoints.filter(({ use }) => use !== 'all');
  const reason = unused.length === 0 ? 'its slices have none of this IP family' : reasons(unused);
  return `no endpoint is used at ${addresses.find(isEmpty)?.at}: ${reason}`;
}

/** Returns the reasons, each with the number of its endpoints, the most frequent ones first. */
function reasons(endpoints: readonly UsedEndpoint[]): string {
  const counts = new Map<string, number>();
  for (const { why = 'used' } of endpoints) counts.set(why, (counts.get(why) ?? 0) + 1);
  if (counts.size === 1) return [...counts.keys()].join('');
  return Array.from(counts)
    .toSorted(([, a], [, b]) => b - a)
    .map(([why, many]) => `${why} (${many})`)
    .join(', ');
}
