import type { IpFamily } from '../../base/ip.ts';
import type { NftElement } from '../../netlink/family/nf-tables/element.ts';
import type { IpSetEntry } from '../../state/ip-set.ts';
import type { Endpoint } from '../../state/real-server.ts';
import { type VirtualServerId, type VirtualServerKey, borrows, virtualServerKey } from '../../state/virtual-server.ts';
import {
  endpointKey,
  endpointOfData,
  entryOfKey,
  indexOfKey,
  listNumbers,
  listOfKey,
  serviceKey,
  serviceOfKey,
  sharedIndexOfKey,
  sharedKey,
} from './objects/keys.ts';
import type { RecalledList } from './objects/list-order.ts';
import type { ElementOf, NftPort } from './port/nft-port.ts';
import { readFirstChain } from './objects/service-objects.ts';
import type { ServiceState } from '../service-ops.ts';
import { ENDPOINTS, LISTS, NO_ENDPOINT_SERVICES, type NodeSet, SERVICE_IPS, SHARED_ENDPOINTS } from './objects/sets.ts';
import { type ListTargets, chainOf, findLists, readListChain, readLists } from './objects/shared-list.ts';

/** A virtual server as its element in a verdict map describes it. */
export interface Head {
  readonly id: VirtualServerId;
  /** The number of its endpoints; 0 if it uses the list of another virtual server. */
  readonly count: number;
  readonly affinity: number;
  /** The chain to which it leads. */
  readonly chain: string;
  /** As that of VirtualServer. */
  readonly list?: VirtualServerId;
  /** The chain to which a shared list leads, if it has one. */
  readonly target?: string | undefined;
  /** Whether the element does something else than those of ours, because another program changed it. */
  readonly misled: boolean;
}

export interface ObservedService {
  readonly id: VirtualServerId;
  /** As those of Head. */
  readonly chain: string;
  readonly target: string | undefined;
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
  lists?: ListTargets,
): Promise<readonly Head[]> {
  const targets = lists ?? (await readLists(port, family));
  const heads: Head[] = [];
  for (const set of HEADS) {
    await port.eachElement(family, set, (element) => {
      const head = headOf(element, family, targets);
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
  for (const set of [ENDPOINTS, SHARED_ENDPOINTS]) {
    await port.eachElement(family, set, (element) => {
      if (!assembly.add({ set, ...element })) onOther({ set, ...element });
    });
  }
  return assembly.finish();
}

/** What was read, and the generation of the ruleset before. */
export interface AtGeneration<T> {
  readonly generation: number;
  readonly found: T;
}

/**
 * Returns those of these virtual servers that exist, without endpoints, and those of `also` that exist. The cost grows with the
 * number of ids.
 */
export async function findHeads(
  port: NftPort,
  family: IpFamily,
  ids: readonly VirtualServerId[],
  also: readonly Pick<ElementOf, 'set' | 'key'>[] = [],
): Promise<AtGeneration<readonly Head[]> & { readonly others: readonly ElementOf[] }> {
  const wanted = ids.flatMap((id) => {
    const key = serviceKey(id);
    return [
      { set: SERVICE_IPS, key },
      { set: NO_ENDPOINT_SERVICES, key },
    ];
  });
  const { generation, elements: all } = await port.lookUp(family, { elements: [...wanted, ...also] });
  const elements = all.filter(({ set }) => HEADS.includes(set));
  const others = all.filter(({ set }) => !HEADS.includes(set));
  const lists = elements.flatMap(({ data }) => readListChain(chainOf(data), family) ?? []);
  const targets = await findLists(port, family, lists);
  return { generation, found: elements.flatMap((element) => headOf(element, family, targets) ?? []), others };
}

/** Reads the endpoints of these virtual servers, but those that are recalled. The cost grows with their number. */
export async function findEndpoints(
  port: NftPort,
  family: IpFamily,
  heads: readonly Head[],
  recalled: ReadonlyMap<VirtualServerKey, RecalledList>,
): Promise<AtGeneration<Services>> {
  const wanted: { readonly set: string; readonly key: Uint8Array }[] = [];
  for (const { id, count, list } of heads) {
    const known = recalled.get(virtualServerKey(id));
    const numbers = list === undefined ? undefined : listNumbers(list);
    for (let index = 0; index < count; index++) {
      if (known?.[index] !== undefined) continue;
      if (numbers === undefined) wanted.push({ set: ENDPOINTS, key: endpointKey(id, index) });
      else wanted.push({ set: SHARED_ENDPOINTS, key: sharedKey(numbers, index) });
    }
  }
  const { generation, elements } = await port.lookUp(family, { elements: wanted });
  const assembly = new Assembly(heads, family, recalled);
  for (const element of elements) assembly.add(element);
  return { generation, found: assembly.finish() };
}

function headOf({ key, data }: NftElement, family: IpFamily, lists: ListTargets): Head | undefined {
  const id = serviceOfKey(key, family);
  if (id === undefined) return undefined;
  const chain = chainOf(data);
  const list = readListChain(chain, family);
  const target = list === undefined ? chain : lists.get(virtualServerKey(list))?.chain;
  const first = readFirstChain(target ?? '');
  if (first === undefined) return { id, chain, count: 0, affinity: 0, misled: true };
  if (list === undefined) return { id, chain, ...first, misled: false };
  return { id, chain, ...first, ...(borrows(id, { list }) ? { count: 0 } : { target }), list, misled: false };
}

/** Puts virtual servers and their endpoints together. */
class Assembly {
  readonly #family: IpFamily;
  readonly #services = new Map<
    VirtualServerKey,
    { readonly head: Head; readonly endpoints: (Endpoint | undefined)[] }
  >();
  readonly #recalled: ReadonlyMap<VirtualServerKey, RecalledList>;
  /** By what listOfKey() returns. */
  readonly #lenders = new Map<string, VirtualServerKey>();

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
      if (head.target !== undefined) this.#lenders.set(listOfKey(sharedKey(listNumbers(head.id), 0)), key);
    }
  }

  /** Returns whether a virtual server has this endpoint. One beyond the number of its endpoints is not chosen. */
  add({ set, key, data }: ElementOf): boolean {
    const isShared = set === SHARED_ENDPOINTS;
    const owner = isShared ? this.#lenders.get(listOfKey(key)) : this.#ownerOf(key);
    const service = owner === undefined ? undefined : this.#services.get(owner);
    if (service === undefined) return false;
    const { head } = service;
    const index = isShared ? sharedIndexOfKey(key) : indexOfKey(key, this.#family);
    if (isShared !== (head.target !== undefined) || index >= head.count) return head.misled;
    const endpoint = data !== undefined && 'value' in data ? endpointOfData(data.value, this.#family) : undefined;
    if (endpoint !== undefined) service.endpoints[index] = endpoint;
    return true;
  }

  #ownerOf(key: Uint8Array): VirtualServerKey | undefined {
    const id = serviceOfKey(key, this.#family);
    return id === undefined ? undefined : virtualServerKey(id);
  }

  /** Returns what was read. If an endpoint of a list is missing, those after it move up, and the service counts as damaged. */
  finish(): Services {
    const services = new Map<VirtualServerKey, ObservedService>();
    for (const [key, { head, endpoints }] of this.#services) {
      const present = endpoints.filter((endpoint) => endpoint !== undefined);
      const list = head.list === undefined ? {} : { list: head.list };
      const state = { affinity: head.affinity, endpoints: present, ...list };
      services.set(key, {
        id: head.id,
        chain: head.chain,
        target: head.target,
        state,
        damaged: head.misled || present.length !== head.count,
        recalled: this.#recalled.has(key),
      });
    }
    return services;
  }
}

/** Returns the entries of a set of what Services share. */
export async function readEntries(port: NftPort, family: IpFamily, set: NodeSet): Promise<IpSetEntry[]> {
  const entries: IpSetEntry[] = [];
  await port.eachElement(family, set.definition.name, ({ key }) => {
    const entry = entryOfKey(set.ipSet.type, key, family);
    if (entry !== undefined) entries.push(entry);
  });
  return entries;
}

/** Returns all elements that these virtual servers have, whatever their state. The cost grows with the table. */
export async function readOwnElements(
  port: NftPort,
  family: IpFamily,
  ids: readonly VirtualServerId[],
): Promise<ReadonlyMap<VirtualServerKey, readonly ElementOf[]>> {
  const found = new Map<VirtualServerKey, ElementOf[]>(ids.map((id) => [virtualServerKey(id), []]));
  if (ids.length === 0) return found;
  for (const set of [...HEADS, LISTS, ENDPOINTS]) {
    await port.eachElement(family, set, (element) => {
      const owner = serviceOfKey(element.key, family);
      if (owner !== undefined) found.get(virtualServerKey(owner))?.push({ set, ...element });
    });
  }
  const lenders = new Map(ids.map((id) => [listOfKey(sharedKey(listNumbers(id), 0)), virtualServerKey(id)]));
  await port.eachElement(family, SHARED_ENDPOINTS, (element) => {
    const owner = lenders.get(listOfKey(element.key));
    if (owner !== undefined) found.get(owner)?.push({ set: SHARED_ENDPOINTS, ...element });
  });
  return found;
}
