import { counted } from '../base/text/counted.ts';
import { readIp } from '../base/read-ip.ts';
import type {
  AddressOwnerReply,
  AddressReply,
  AnnotationReply,
  EndpointReply,
  HealthCheckReply,
  PacketReply,
  PortReply,
  ServiceReply,
  SetReply,
} from '../explain/replies.ts';
import { ask, askDaemon } from './ask.ts';
import { askOrRead } from './ask-or-read.ts';
import { counterLines } from './counter-lines.ts';
import { aligned, wrapped } from './output.ts';
import { packetLines } from './packet-lines.ts';
import { refusedText } from './refused-text.ts';
import { UsageError } from './usage-error.ts';
import type { Command, Given, Result } from './command.ts';

export const EXPLAIN: Command = {
  usage: 'SERVICE | NAMESPACE/SERVICE | IP[:PORT[/PROTOCOL]] [options]',
  summary:
    'what a Service is on this node, which of its endpoints are used, and why the others are not; ' +
    'for an address and port, the Service that has them; with --from, the path of a packet from there',
  options: {
    namespace: { short: 'n', hint: 'name', help: 'namespace of the Service; default by default' },
    from: { hint: 'address', help: 'address of a client: which way its packets take here, and who answers' },
    to: { hint: 'target', help: 'the same as the argument' },
  },
  takes: 'arguments',
  run: async (given) => {
    const { from, to } = given.values;
    const [target, ...more] = [...given.positionals, ...(to === undefined ? [] : [to])];
    if (target === undefined || more.length > 0) {
      throw new UsageError('explain needs one Service, or one address and port: see explain --help');
    }
    if (from !== undefined) return explainPacket(from, target, given);
    return isAddress(target) ? explainAddress(target, given) : explainService(target, given);
  },
};

/** An address, or an address and port. No name of a Service has a colon. */
export function isAddress(target: string): boolean {
  return target.includes(':') || readIp(target) !== undefined;
}

async function explainAddress(at: string, { querySocket }: Given): Promise<Result> {
  const query = new URLSearchParams({ at });
  const reply = await askOrRead(
    () => ask<AddressOwnerReply>(querySocket, `/v1/address?${query.toString()}`),
    (answers) => answers.address(at),
  );
  return { reply, lines: wrapped(reply.verdict) };
}

async function explainPacket(from: string, target: string, given: Given): Promise<Result> {
  if (readIp(from) === undefined) {
    throw new UsageError(`--from: want an IP address, got ${JSON.stringify(from)}: the client's, such as a Pod's`);
  }
  const to = isAddress(target) ? { at: target } : serviceOf(target, given);
  const query = new URLSearchParams({ from, ...to });
  const reply = await askDaemon<PacketReply>('explain --from', given.querySocket, `/v1/packet?${query.toString()}`);
  return { reply, lines: packetLines(reply) };
}

/** "web", "shop/web" or, as kubectl accepts it, "svc/web". */
export function serviceOf(
  target: string,
  { values }: Pick<Given, 'values'>,
): { readonly namespace: string; readonly name: string } {
  const plain = target.replace(/^(svc|services?)\//, '');
  const slash = plain.indexOf('/');
  const namespace = slash < 0 ? (values['namespace'] ?? 'default') : plain.slice(0, slash);
  return { namespace, name: plain.slice(slash + 1) };
}

async function explainService(target: string, given: Given): Promise<Result> {
  const query = new URLSearchParams({ ...serviceOf(target, given) });
  const reply = await askDaemon<ServiceReply>('explain SERVICE', given.querySocket, `/v1/service?${query.toString()}`);
  return { reply, lines: serviceLines(reply) };
}

export function serviceLines(service: ServiceReply): string[] {
  const { verdict, settings, annotations = [], ports, sets, refused, nodeCommands = [], changedAt } = service;
  const { healthChecks = [], repairs = [], notes } = service;
  return [
    ...wrapped(verdict),
    ...(settings === undefined ? [] : ['', ...wrapped(settingsText(settings))]),
    ...annotations.flatMap((annotation) => wrapped(annotationText(annotation))),
    ...notes.flatMap((note) => wrapped(`note: ${note}`)),
    ...refused.flatMap((each) => wrapped(`refused by the kernel, and tried again: ${refusedText(each)}`)),
    ...nodeCommands.map((command) => `of the node: ${command}`),
    ...(changedAt === undefined ? [] : [`last change: ${changedAt}`]),
    ...repairs.flatMap(({ at, command }) => wrapped(`repaired ${at}: ${command}`)),
    ...healthChecks.flatMap((check) => wrapped(healthCheckText(check))),
    ...ports.flatMap(portLines),
    ...(sets.length === 0 ? [] : ['', 'entries of sets', ...sets.flatMap(setLines)]),
  ];
}

function healthCheckText({ at, localEndpoints, status, why }: HealthCheckReply): string {
  const answer = status === undefined ? `does not answer: ${why}` : `answers ${status}`;
  return `healthCheckNodePort: ${at} ${answer}, ${counted(localEndpoints, 'ready endpoint')} on this node`;
}

function annotationText({ name, value, from, inForce }: AnnotationReply): string {
  const by = from === undefined ? 'asked' : `set by ${from}`;
  return `${by}: ${name} ${JSON.stringify(value)}: ${inForce ? 'in force' : 'not in force'}`;
}

/** A shell needs lines of input, and the end of these, as they are. */
function linesOf(command: string): readonly string[] {
  const lines = command.split('\n');
  return lines.length === 1 ? [`    ${command}`] : lines;
}

function setLines({ set, does, count, first, commands }: SetReply): string[] {
  const more = count - first.length;
  const entries = [...first, ...(more === 0 ? [] : [`and ${more} more`])].join(' ');
  return [...aligned([[`${set}: ${does}`]]), ...aligned([[entries]], 4), ...commands.flatMap(linesOf)];
}

function settingsText(settings: NonNullable<ServiceReply['settings']>): string {
  const { scheduler, flags, internalTrafficPolicy, externalTrafficPolicy, affinitySeconds } = settings;
  return [
    `scheduler ${[scheduler, ...flags].join(' ')}`,
    `internalTrafficPolicy ${internalTrafficPolicy}`,
    `externalTrafficPolicy ${externalTrafficPolicy}`,
    affinitySeconds === 0 ? 'no session affinity' : `session affinity for ${affinitySeconds} s`,
  ].join(', ');
}

function portLines({ name, protocol, port, addresses, endpoints, counters, udpFlows, notes }: PortReply): string[] {
  return [
    '',
    `port ${name === '' ? '' : `${name} `}${port}/${protocol}`,
    ...aligned(addresses.map(addressRow)),
    ...addresses.flatMap(({ commands }) => commands.flatMap(linesOf)),
    ...notes.flatMap((note) => wrapped(`  note: ${note}`)),
    ...aligned(endpoints.map(endpointRow)),
    ...counterLines(counters),
    ...(udpFlows === undefined ? [] : [`  conntrack has ${counted(udpFlows, 'UDP flow')} to it`]),
  ];
}

function addressRow({ use, at, endpoints, state, owner, clients }: AddressReply): string[] {
  const known = owner === undefined ? state : `belongs to ${owner}`;
  return [use, at, counted(endpoints, 'endpoint'), known, ...(clients === undefined ? [] : [clients])];
}

const USED = {
  all: 'used',
  internal: 'used at the cluster IP only',
  external: 'used at other addresses only',
  none: 'not used',
};

function endpointRow(endpoint: EndpointReply): string[] {
  const { slice, at, use, why } = endpoint;
  return [slice || '-', at, kernelText(endpoint), why === undefined ? USED[use] : `${USED[use]}: ${why}`];
}

/** In nftables mode, endpoints have neither weights nor counts of connections. */
function kernelText({ weight, activeConnections, inactiveConnections }: EndpointReply): string {
  if (weight === undefined) return '-';
  if (activeConnections === undefined) return 'in the kernel';
  return `weight ${weight}, ${activeConnections} active, ${inactiveConnections ?? 0} inactive`;
}
