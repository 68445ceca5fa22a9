import { type IpAddress, formatHostPort, formatIp } from '../base/ip.ts';
import type { Port } from '../base/port.ts';
import type { Protocol } from '../base/protocol.ts';
import type { NodePlan } from '../plan/node/node-plan.ts';
import { type VirtualServerId, virtualServerKey } from '../state/virtual-server.ts';
import { ADDRESS_KIND_NAMES } from './address-use.ts';
import { isClosedAddress } from './closed-address.ts';
import { REPLY_API_VERSION, type AddressMatch, type AddressOwnerReply } from './replies.ts';
import type { Words } from './words.ts';

export interface AskedAddress {
  readonly address: IpAddress;
  /** Absent: all ports. */
  readonly port?: Port | undefined;
  /** The protocols that were asked about. */
  readonly protocols: readonly Protocol[];
}

/** What the kernel has at the address and port. */
export interface FoundAddress {
  readonly has: (id: VirtualServerId) => boolean;
  /** Whether a virtual server is ours, although no Service needs it. */
  readonly owns: (id: VirtualServerId) => boolean;
}

/** Says to which Service an address and port belong. Yields after each service. */
export function* addressReply(
  node: string,
  { address, port, protocols }: AskedAddress,
  plan: Pick<NodePlan, 'virtualServer' | 'ownerOf' | 'services'>,
  { has, owns }: FoundAddress,
  { address: words }: Words,
): Generator<void, AddressOwnerReply> {
  const ids =
    port === undefined
      ? plannedAt(address, protocols, plan)
      : protocols.map((protocol) => ({ address, port, protocol }));
  const matches = ids.flatMap((id): AddressMatch[] => {
    const { protocol } = id;
    const at = formatHostPort(address, id.port);
    const key = virtualServerKey(id);
    const [planned, service] = [plan.virtualServer(key), plan.ownerOf(key)];
    if (planned !== undefined && service !== undefined) {
      return [{ protocol, at, is: ADDRESS_KIND_NAMES[planned.traits.kind], service, inKernel: has(id) }];
    }
    return has(id) ? [{ protocol, at, is: owns(id) ? 'leftover' : 'foreign', inKernel: true }] : [];
  });
  const elsewhere = new Set<string>();
  for (const { service, virtualServers } of plan.services()) {
    const endpoint = virtualServers
      .filter(({ virtualServer }) => protocols.includes(virtualServer.protocol))
      .flatMap(({ realServers, virtualServer: { protocol } }) => realServers.map((server) => ({ ...server, protocol })))
      .find((server) => server.address === address && (port === undefined || server.port === port));
    if (endpoint !== undefined) {
      const at = formatHostPort(address, endpoint.port);
      matches.push({ protocol: endpoint.protocol, at, is: 'endpoint', service });
    }
    for (const { virtualServer } of virtualServers) {
      if (virtualServer.address !== address) continue;
      elsewhere.add(`${service} has ${formatIp(address)} at ${virtualServer.port}/${virtualServer.protocol}`);
    }
    yield;
  }
  const ok = matches.length > 0 && matches.every(({ inKernel, is }) => inKernel !== false && is !== 'leftover');
  const closed = yield* isClosedAddress(address, plan);
  const at = port === undefined ? formatIp(address) : formatHostPort(address, port);
  const verdict = verdictOf(at, matches, { has: [...elsewhere], closed }, words);
  return { apiVersion: REPLY_API_VERSION, kind: 'Address', node, ok, verdict, matches };
}

/** The service ports at an address. */
export function plannedAt(
  address: IpAddress,
  protocols: readonly Protocol[],
  plan: Pick<NodePlan, 'services'>,
): VirtualServerId[] {
  const ids = Array.from(plan.services()).flatMap(({ virtualServers }) =>
    virtualServers.map(({ virtualServer }) => virtualServer),
  );
  return ids.filter((id) => id.address === address && protocols.includes(id.protocol));
}

function verdictOf(
  at: string,
  matches: readonly AddressMatch[],
  /** At which ports Services have the address, and whether its other ports refuse connections. */
  elsewhere: { readonly has: readonly string[]; readonly closed: boolean },
  words: Words['address'],
): string {
  if (matches.length > 0)
    return matches.map((match) => `${match.at}/${match.protocol} ${matchText(match, words)}`).join('; ');
  const { has, closed } = elsewhere;
  if (has.length === 0) return `${at} ${words.nobodys}`;
  const [first = ''] = has;
  const more = has.length === 1 ? '' : `, and at ${has.length - 1} more`;
  return `${at} is nobody's: ${first}${more}${closed ? '; its other ports refuse connections' : ''}`;
}

function matchText({ is, service, inKernel }: AddressMatch, words: Words['address']): string {
  if (is === 'foreign') return 'is a virtual server of another program, which this one never changes';
  if (is === 'leftover') return words.leftover;
  if (is === 'endpoint') return `is an endpoint of ${service}`;
  return `is the ${is} of ${service}${inKernel === true ? '' : `, ${words.missing}`}`;
}
