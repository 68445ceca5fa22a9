import type { Cidr } from '../../base/cidr.ts';
import type { IpFamily } from '../../base/ip.ts';
import { NFT_VERDICT } from '../../netlink/family/nf-tables/data.ts';
import type { NftElement } from '../../netlink/family/nf-tables/element.ts';
import type { IpSetEntry } from '../../state/ip-set.ts';
import { type VirtualServerId, type VirtualServerKey, virtualServerKey } from '../../state/virtual-server.ts';
import {
  type EndpointAddress,
  endpointKey,
  endpointOfData,
  entryOfKey,
  indexOfKey,
  serviceKey,
  serviceOfKey,
} from './keys.ts';
import type { RecalledList } from './list-order.ts';
import type { ElementOf, NftPort } from './nft-port.ts';
import { readFirstChain } from './service-objects.ts';
import type { ServiceState } from '../service-ops.ts';
import { ENDPOINTS, NO_ENDPOINT_SERVICES, type RoleSet, SERVICE_IPS, firewallSets } from './sets.ts';

/** A virtual server as its element in a verdict map describes it. */
export interface Head {
  readonly id: VirtualServerId;
  readonly count: number;
  readonly affinity: number;
  /** The chain to which it leads. */
  readonly chain: string;
  /** Whether the element does something else than those of ours, because another program changed it. */
  readonly misled: boolean;
}

export interface ObservedService {
  readonly id: VirtualServerId;
  /** The chain to which it leads. */
  readonly chain: string;
  readonly state: ServiceState;
  /** Whether endpoints are missing, or are not those that are chosen, because another program changed elements. */
  readonly damaged: boolean;
  /** Whether some endpoints were not read: see ListOrder. */
  readonly recalled: boolean;
}

export type Services = ReadonlyMap<VirtualServerKey, ObservedService>;

/** The maps from virtual servers to what is done with packets to them. */
export const HEADS: readonly string[] = [SERVICE_IPS, NO_ENDPOINT_SERVICES];

/** Returns all virtual servers of a family, without endpoints. `onOther` gets the elements that no virtual server can have. */
export async function readHeads(
  port: NftPort,
  family: IpFamily,
  onOther: (element: ElementOf) => void = () => undefined,
): Promise<readonly Head[]> {
  const heads: Head[] = [];
  for (const set of HEADS) {
    await port.eachElement(family, set, (element) => {
      const head = headOf(element, family);
      if (head === undefined) onOther({ set, ...element });
      else heads.push(head);
    });
  }
  return heads;
}

/** Returns these virtual servers. Reads the endpoints of all. `onOther` gets those that none of these has. */
export async function readEndpoints(
  port: NftPort,
  family: IpFamily,
  heads: readonly Head[],
  onOther: (element: ElementOf) => void = () => undefined,
): Promise<Services> {
  const assembly = new Assembly(heads, family);
  await port.eachElement(family, ENDPOINTS, (element) => {
    if (!assembly.add(element)) onOther({ set: ENDPOINTS, ...element });
  });
  return assembly.finish();
}

/** What was read, and the generation of the ruleset before. */
export interface AtGeneration<T> {
  readonly generation: number;
  readonly found: T;
}

/** Returns those of these virtual servers that exist, without endpoints. The cost grows with the number of ids. */
export async function findHeads(
  port: NftPort,
  family: IpFamily,
  ids: readonly VirtualServerId[],
): Promise<AtGeneration<readonly Head[]>> {
  const wanted = ids.flatMap((id) => {
    const key = serviceKey(id);
    return [
      { set: SERVICE_IPS, key },
      { set: NO_ENDPOINT_SERVICES, key },
    ];
  });
  const { generation, elements } = await port.lookUp(family, { elements: wanted });
  return { generation, found: elements.flatMap((element) => headOf(element, family) ?? []) };
}

/** Reads the endpoints of these virtual servers, but those that are recalled. The cost grows with their number. */
export async function findEndpoints(
  port: NftPort,
  family: IpFamily,
  heads: readonly Head[],
  recalled: ReadonlyMap<VirtualServerKey, RecalledList>,
): Promise<AtGeneration<Services>> {
  const wanted: { readonly set: string; readonly key: Uint8Array }[] = [];
  for (const { id, count } of heads) {
    const known = recalled.get(virtualServerKey(id));
    for (let index = 0; index < count; index++) {
      if (known?.[index] === undefined) wanted.push({ set: ENDPOINTS, key: endpointKey(id, index) });
    }
  }
  const { generation, elements } = await port.lookUp(family, { elements: wanted });
  const assembly = new Assembly(heads, family, recalled);
  for (const element of elements) assembly.add(element);
  return { generation, found: assembly.finish() };
}

function headOf({ key, data }: NftElement, family: IpFamily): Head | undefined {
  const id = serviceOfKey(key, family);
  if (id === undefined) return undefined;
  const { code, chain = '' } = data !== undefined && 'verdict' in data ? data.verdict : NO_VERDICT;
  const target = code === NFT_VERDICT.goto ? readFirstChain(chain) : undefined;
  return target === undefined
    ? { id, chain, count: 0, affinity: 0, misled: true }
    : { id, chain, ...target, misled: false };
}

const NO_VERDICT = { code: 0, chain: undefined };

/** Puts virtual servers and their endpoints together. */
class Assembly {
  readonly #family: IpFamily;
  readonly #services = new Map<
    VirtualServerKey,
    { readonly head: Head; readonly endpoints: (EndpointAddress | undefined)[] }
  >();
  readonly #recalled: ReadonlyMap<VirtualServerKey, RecalledList>;

  constructor(
    heads: readonly Head[],
    family: IpFamily,
    recalled: ReadonlyMap<VirtualServerKey, RecalledList> = new Map(),
  ) {
    this.#family = family;
    this.#recalled = recalled;
    for (const head of heads) {
      const key = virtualServerKey(head.id);
      this.#services.set(key, { head, endpoints: [...(recalled.get(key) ?? [])] });
    }
  }

  /** Returns whether a virtual server has this endpoint. One beyond the number of its endpoints is not chosen. */
  add({ key, data }: NftElement): boolean {
    const id = serviceOfKey(key, this.#family);
    const service = id === undefined ? undefined : this.#services.get(virtualServerKey(id));
    if (service === undefined) return false;
    const index = indexOfKey(key, this.#family);
    if (index >= service.head.count) return service.head.misled;
    const endpoint = data !== undefined && 'value' in data ? endpointOfData(data.value, this.#family) : undefined;
    if (endpoint !== undefined) service.endpoints[index] = endpoint;
    return true;
  }

  /** Returns what was read. If an endpoint of a list is missing, those after it move up, and the service counts as damaged. */
  finish(): Services {
    const services = new Map<VirtualServerKey, ObservedService>();
    for (const [key, { head, endpoints }] of this.#services) {
      const present = endpoints.filter((endpoint) => endpoint !== undefined);
      const state = { affinity: head.affinity, endpoints: present };
      services.set(key, {
        id: head.id,
        chain: head.chain,
        state,
        damaged: head.misled || present.length !== head.count,
        recalled: this.#recalled.has(key),
      });
    }
    return services;
  }
}

/** Returns the entries of a set that stands for an ipset. */
export async function readEntries(port: NftPort, family: IpFamily, set: RoleSet): Promise<IpSetEntry[]> {
  const entries: IpSetEntry[] = [];
  await port.eachElement(family, set.definition.name, ({ key }) => {
    const entry = entryOfKey(set.ipSet.type, key, family);
    if (entry !== undefined) entries.push(entry);
  });
  return entries;
}

/** A port of a load balancer IP, and the source ranges that the table has for it. */
export interface Restricted {
  readonly id: VirtualServerId;
  /** Whether other sources are refused. */
  readonly inForce: boolean;
  readonly ranges: readonly Cidr[];
}

/** Returns the ports of load balancer IPs for which the table has source ranges. */
export async function readSourceRanges(
  port: NftPort,
  family: IpFamily,
): Promise<ReadonlyMap<VirtualServerKey, Restricted>> {
  const restricted = new Map<VirtualServerKey, { id: VirtualServerId; inForce: boolean; ranges: Cidr[] }>();
  const { ports, ranges } = firewallSets(family);
  for (const entry of await readEntries(port, family, ports)) {
    if (entry.type === 'hash:ip,port')
      restricted.set(virtualServerKey(entry), { id: entry, inForce: true, ranges: [] });
  }
  for (const entry of await readEntries(port, family, ranges)) {
    if (entry.type !== 'hash:ip,port,net') continue;
    const key = virtualServerKey(entry);
    const { address, protocol, port: number } = entry;
    const known = restricted.get(key) ?? { id: { address, protocol, port: number }, inForce: false, ranges: [] };
    known.ranges.push(entry.network);
    restricted.set(key, known);
  }
  return restricted;
}

/** Returns all elements that these virtual servers have, whatever their state. The cost grows with the table. */
export async function readOwnElements(
  port: NftPort,
  family: IpFamily,
  ids: readonly VirtualServerId[],
): Promise<ReadonlyMap<VirtualServerKey, readonly ElementOf[]>> {
  const found = new Map<VirtualServerKey, ElementOf[]>(ids.map((id) => [virtualServerKey(id), []]));
  if (ids.length === 0) return found;
  for (const set of [...HEADS, ENDPOINTS]) {
    await port.eachElement(family, set, (element) => {
      const owner = serviceOfKey(element.key, family);
      if (owner !== undefined) found.get(virtualServerKey(owner))?.push({ set, ...element });
    });
  }
  return found;
}
