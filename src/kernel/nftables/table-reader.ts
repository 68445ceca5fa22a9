import type { Cidr } from '../../base/cidr.ts';
import type { IpFamily } from '../../base/ip.ts';
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
import type { NftPort } from './nft-port.ts';
import { readFirstChain } from './service-objects.ts';
import type { ServiceState } from '../service-ops.ts';
import {
  AFFINITY_ENDPOINTS,
  ENDPOINTS,
  NO_ENDPOINT_SERVICES,
  type RoleSet,
  SERVICE_IPS,
  firewallSets,
} from './sets.ts';

/** A virtual server as its element in a verdict map describes it. */
interface Head {
  readonly id: VirtualServerId;
  readonly count: number;
  readonly affinity: number;
}

export interface ObservedService {
  readonly id: VirtualServerId;
  readonly state: ServiceState;
  /** Whether endpoints are missing, because another program removed them. */
  readonly damaged: boolean;
}

export type Services = ReadonlyMap<VirtualServerKey, ObservedService>;

/** From this number of virtual servers on, reading all is faster than asking for each. */
const MANY = 512;

/** Returns all virtual servers of a family with their endpoints. */
export async function readServices(port: NftPort, family: IpFamily): Promise<Services> {
  const heads = [
    ...(await port.elements(family, SERVICE_IPS)),
    ...(await port.elements(family, NO_ENDPOINT_SERVICES)),
  ].flatMap((element) => headOf(element, family) ?? []);
  return assemble(heads, await port.elements(family, ENDPOINTS), family);
}

/** Returns those of these virtual servers that exist. The cost grows with the number of ids. */
export async function findServices(
  port: NftPort,
  family: IpFamily,
  ids: readonly VirtualServerId[],
): Promise<Services> {
  if (ids.length === 0) return new Map();
  if (ids.length >= MANY) return await readServices(port, family);
  const keys = ids.map(serviceKey);
  const heads = [
    ...(await port.findElements(family, SERVICE_IPS, keys)),
    ...(await port.findElements(family, NO_ENDPOINT_SERVICES, keys)),
  ].flatMap((element) => headOf(element, family) ?? []);
  const wanted = heads.flatMap(({ id, count }) => Array.from({ length: count }, (_, index) => endpointKey(id, index)));
  return assemble(heads, await port.findElements(family, ENDPOINTS, wanted), family);
}

function headOf({ key, data }: NftElement, family: IpFamily): Head | undefined {
  const id = serviceOfKey(key, family);
  if (id === undefined || data === undefined || !('verdict' in data)) return undefined;
  const target = readFirstChain(data.verdict.chain ?? '');
  return target === undefined ? undefined : { id, ...target };
}

/** An endpoint beyond the count of its virtual server is not chosen, and a missing one shortens the list. */
function assemble(heads: readonly Head[], elements: readonly NftElement[], family: IpFamily): Services {
  const services = new Map<VirtualServerKey, { readonly head: Head; readonly endpoints: EndpointAddress[] }>();
  for (const head of heads) services.set(virtualServerKey(head.id), { head, endpoints: [] });
  for (const { key, data } of elements) {
    const id = serviceOfKey(key, family);
    const service = id === undefined ? undefined : services.get(virtualServerKey(id));
    if (service === undefined || data === undefined || !('value' in data)) continue;
    const index = indexOfKey(key, family);
    const endpoint = endpointOfData(data.value, family);
    if (endpoint !== undefined && index < service.head.count) service.endpoints[index] = endpoint;
  }
  return new Map(
    Array.from(services, ([key, { head, endpoints }]) => {
      // A sparse array: flat() drops its holes.
      const present = endpoints.flat();
      const state = { affinity: head.affinity, endpoints: present };
      return [key, { id: head.id, state, damaged: present.length !== head.count }];
    }),
  );
}

/** Returns the entries of a set that stands for an ipset. */
export async function readEntries(port: NftPort, family: IpFamily, set: RoleSet): Promise<IpSetEntry[]> {
  const elements = await port.elements(family, set.definition.name);
  return elements.flatMap(({ key }) => entryOfKey(set.ipSet.type, key, family) ?? []);
}

/** A port of a load balancer IP, and the source ranges that the table has for it. */
export interface Restricted {
  readonly id: VirtualServerId;
  /** Whether other sources are refused. */
  readonly inForce: boolean;
  readonly ranges: readonly Cidr[];
}

/** Returns the ports of load balancer IPs for which the table has source ranges. */
export async function readRestricted(
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

/** Returns all elements that a virtual server has, whatever its state. The cost grows with the table. */
export async function readOwnElements(
  port: NftPort,
  family: IpFamily,
  id: VirtualServerId,
): Promise<(NftElement & { readonly set: string })[]> {
  const key = virtualServerKey(id);
  const found: (NftElement & { readonly set: string })[] = [];
  for (const set of [SERVICE_IPS, NO_ENDPOINT_SERVICES, ENDPOINTS, AFFINITY_ENDPOINTS]) {
    for (const element of await port.elements(family, set)) {
      const owner = serviceOfKey(element.key, family);
      if (owner !== undefined && virtualServerKey(owner) === key) found.push({ set, ...element });
    }
  }
  return found;
}
