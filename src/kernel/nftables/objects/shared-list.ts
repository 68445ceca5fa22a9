import { type IpFamily, familyOf, formatIp, parseIp } from '../../../base/ip.ts';
import { toPort } from '../../../base/port.ts';
import type { Protocol } from '../../../base/protocol.ts';
import { NFT_VERDICT } from '../../../netlink/family/nf-tables/data.ts';
import type { NftElement } from '../../../netlink/family/nf-tables/element.ts';
import { type VirtualServerId, type VirtualServerKey, virtualServerKey } from '../../../state/virtual-server.ts';
import type { ChainPlan } from './base-chains.ts';
import { listNumbers, serviceKey, serviceOfKey } from './keys.ts';
import type { ElementOf, NftPort } from '../port/nft-port.ts';
import { LISTS, SHARED_ENDPOINTS } from './sets.ts';
import { chooseOfList, goto } from './steps.ts';

/** What the virtual servers of a list do: the chain to which one with such a list of its own alone leads. */
export interface ListTarget {
  readonly name: string;
  readonly count: number;
  readonly affinity: number;
}

const PREFIX = 'choose-of/';

/** "choose-of/10.96.0.10_tcp_80": as the number of endpoints is not in it, nothing moves when this changes. */
export function listChainName({ address, protocol, port }: VirtualServerId): string {
  return `${PREFIX}${formatIp(address).replaceAll(':', '.')}_${protocol.toLowerCase()}_${port}`;
}

export function isListChain(name: string): boolean {
  return name.startsWith(PREFIX);
}

const NAME = /^choose-of\/(.+)_(tcp|udp|sctp)_(\d+)$/;

/** Returns the virtual server that lends its list to those that lead to the chain; undefined if no chain of lists has the name. */
export function readListChain(name: string, family: IpFamily): VirtualServerId | undefined {
  const [, host = '', protocol = '', number = ''] = NAME.exec(name) ?? [];
  const address = parseIp(family === 4 ? host : host.replaceAll('.', ':'));
  const port = toPort(Number(number));
  if (address === undefined || familyOf(address) !== family || port === undefined) return undefined;
  return { address, protocol: protocol.toUpperCase() as Protocol, port };
}

/** The chain of all virtual servers that have the list of this one. */
export function listChain(id: VirtualServerId, { name, count, affinity }: ListTarget): ChainPlan {
  const { address, protocol } = id;
  const rule =
    affinity > 0 ? goto(name) : chooseOfList(SHARED_ENDPOINTS, listNumbers(id), count, protocol, familyOf(address));
  return { name: listChainName(id), rules: [rule] };
}

/** The chains to which the lists of virtual servers lead. */
export type ListTargets = ReadonlyMap<VirtualServerKey, { readonly id: VirtualServerId; readonly chain: string }>;

/** Returns all shared lists of a family. `onOther` gets the elements that no list can have. */
export async function readLists(
  port: NftPort,
  family: IpFamily,
  onOther: (element: ElementOf) => void = () => undefined,
): Promise<ListTargets> {
  const found = new Map<VirtualServerKey, { readonly id: VirtualServerId; readonly chain: string }>();
  await port.eachElement(family, LISTS, (element) => {
    const id = serviceOfKey(element.key, family);
    if (id === undefined) onOther({ set: LISTS, ...element });
    else found.set(virtualServerKey(id), { id, chain: chainOf(element.data) });
  });
  return found;
}

/** Returns the shared lists of these virtual servers. */
export async function findLists(
  port: NftPort,
  family: IpFamily,
  lenders: readonly VirtualServerId[],
): Promise<ListTargets> {
  const ids = new Map(lenders.map((id) => [virtualServerKey(id), id]));
  const wanted = Array.from(ids.values(), (id) => ({ set: LISTS, key: serviceKey(id) }));
  const { elements } = wanted.length === 0 ? { elements: [] } : await port.lookUp(family, { elements: wanted });
  return new Map(
    elements.flatMap(({ key, data }) => {
      const id = serviceOfKey(key, family);
      return id === undefined ? [] : [[virtualServerKey(id), { id, chain: chainOf(data) }] as const];
    }),
  );
}

/** Returns the chain to which an element goes; '' if it does something else. */
export function chainOf(data: NftElement['data']): string {
  const verdict = data !== undefined && 'verdict' in data ? data.verdict : undefined;
  return (verdict?.code === NFT_VERDICT.goto ? verdict.chain : undefined) ?? '';
}
