import { compareText } from '../base/text/compare-text.ts';
import { type IpAddress, familyOf, formatHostPort, formatIp } from '../base/ip.ts';
import { SET_ROLES, type SetRole, setKind, setName } from '../state/set-roles.ts';
import { type IpSetEntry, ipSetEntryKey } from '../state/ip-set.ts';
import { type ObservedRealServer, formatRealServer } from '../state/real-server.ts';
import {
  type VirtualServer,
  type VirtualServerId,
  type VirtualServerKey,
  virtualServerKey,
} from '../state/virtual-server.ts';
import type { AskedAddress } from './address-reply.ts';
import { ADDRESS_KIND_NAMES } from './address-use.ts';
import { kernelOnly } from './kernel-only.ts';
import type { Words } from './words.ts';
import type { AddressMatch, AddressOwnerReply, AddressUse } from './replies.ts';

/** The kernel state of a node without a daemon, where the Services are not known. */
export interface KernelState {
  readonly ids: readonly Pick<VirtualServer, keyof VirtualServerId | 'traits'>[];
  readonly realServers: ReadonlyMap<VirtualServerKey, readonly ObservedRealServer[]>;
  readonly sets: readonly { readonly name: string; readonly entries: readonly IpSetEntry[] }[];
  /** On kube-ipvs0. */
  readonly addresses: ReadonlySet<IpAddress>;
  readonly words: Words;
}

const MOST_LISTED = 20;

/** Says what the kernel has at an address and port. */
export function kernelAddressReply(
  node: string,
  { address, port, protocols }: AskedAddress,
  state: KernelState,
): AddressOwnerReply {
  const at = port === undefined ? formatIp(address) : formatHostPort(address, port);
  const isAsked = (one: Pick<VirtualServerId, 'address' | 'port'>): boolean =>
    one.address === address && (port === undefined || one.port === port);
  const { words } = state;
  const matches: AddressMatch[] = [];
  const texts: string[] = [];
  for (const id of state.ids.filter(({ protocol }) => protocols.includes(protocol))) {
    const servers = state.realServers.get(virtualServerKey(id)) ?? [];
    if (isAsked(id)) {
      const is = useOf(id, state);
      const itself = formatHostPort(id.address, id.port);
      matches.push({ protocol: id.protocol, at: itself, is, inKernel: true });
      texts.push(`${itself}/${id.protocol} ${useText(is, words)}, ${serversText(servers, words)}`);
    }
  }
  for (const protocol of protocols) {
    const served = state.ids.filter(
      (id) => id.protocol === protocol && state.realServers.get(virtualServerKey(id))?.some(isAsked),
    );
    if (served.length === 0) continue;
    matches.push({ protocol, at, is: 'endpoint' });
    texts.push(`${at}/${protocol} is ${withArticle(words.serving)} of ${listText(served.map(formatRealServer))}`);
  }
  const verdict =
    texts.length > 0
      ? texts.join('; ')
      : `no ${words.served} and no ${words.serving} is ${at}${elsewhere(address, state)}`;
  return { ...kernelOnly('Address', node, verdict), matches };
}

type Is = AddressUse | 'foreign' | 'leftover';

const USE_TEXTS: Readonly<Record<AddressUse, string>> = {
  ClusterIP: 'is a ClusterIP',
  NodePort: 'is a NodePort',
  LoadBalancerIP: 'is a load balancer IP',
  ExternalIP: 'is an external IP',
};

/** The tables of nftables mode have no virtual servers of other programs, and no address on kube-ipvs0. */
function useText(is: Is, { served, countsConnections }: Words): string {
  if (is === 'leftover') return `is a ${served} on kube-ipvs0 that is in no set`;
  if (is === 'foreign') return `is a ${served} ${countsConnections ? 'of another program' : 'that is in no set'}`;
  return USE_TEXTS[is];
}

function withArticle(noun: string): string {
  return `${/^[aeiou]/.test(noun) ? 'an' : 'a'} ${noun}`;
}

/**
 * In nftables and iptables mode, a virtual server says its purpose. In ipvs mode, sets name the purpose of each virtual server of
 * ours; that of a node port is named by its port alone.
 */
function useOf(id: KernelState['ids'][number], { sets, addresses }: KernelState): Is {
  if (id.traits !== undefined) return ADDRESS_KIND_NAMES[id.traits.kind];
  const family = familyOf(id.address);
  const role = SET_ROLES.find((each) =>
    sets.some(({ name, entries }) => name === setName(each, family) && entries.some((entry) => names(each, entry, id))),
  );
  const kind = role === undefined ? undefined : setKind(role).of;
  if (kind !== undefined) return ADDRESS_KIND_NAMES[kind];
  return addresses.has(id.address) ? 'leftover' : 'foreign';
}

function names(role: SetRole, entry: IpSetEntry, id: VirtualServerId): boolean {
  const { of, protocol } = setKind(role);
  if (of === undefined) return false;
  if (entry.type === 'bitmap:port') return protocol === id.protocol && entry.port === id.port;
  return entry.type === 'hash:ip,port' && ipSetEntryKey(entry) === ipSetEntryKey({ ...id, type: 'hash:ip,port' });
}

function serversText(servers: readonly ObservedRealServer[], { serving, countsConnections }: Words): string {
  if (servers.length === 0) return `without ${serving}s`;
  const texts = servers.map((server) => {
    const text = formatRealServer(server);
    return countsConnections ? `${text} (weight ${server.weight})` : text;
  });
  return `with ${serving}s ${listText(texts.toSorted(compareText))}`;
}

function elsewhere(address: IpAddress, { ids, words }: KernelState): string {
  const others = ids.filter((id) => id.address === address);
  return others.length === 0
    ? ''
    : `; its address has ${words.served}s at ${listText(others.map(({ port, protocol }) => `${port}/${protocol}`))}`;
}

function listText(texts: readonly string[]): string {
  const more = texts.length - MOST_LISTED;
  return [...texts.slice(0, MOST_LISTED), ...(more > 0 ? [`${more} more`] : [])].join(', ');
}
