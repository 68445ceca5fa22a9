import { type IpFamily, familyOf } from '../../../base/ip.ts';
import { NFT_VERDICT } from '../../../netlink/family/nf-tables/data.ts';
import { type Endpoint, hasSameIdentity } from '../../../state/real-server.ts';
import { type VirtualServerId, borrows } from '../../../state/virtual-server.ts';
import type { ServiceState } from '../../service-ops.ts';
import { affinityChainName, affinityChains, readAffinityChain } from './affinity-chains.ts';
import { REJECT, type ChainPlan } from './base-chains.ts';
import { endpointData, endpointKey, listNumbers, serviceKey, sharedKey } from './keys.ts';
import type { ElementOf } from '../port/nft-port.ts';
import type { SharedChain } from './shared-chain.ts';
import { ENDPOINTS, LISTS, NO_ENDPOINT_SERVICES, SERVICE_IPS, SHARED_ENDPOINTS } from './sets.ts';
import { type ListTarget, listChain, listChainName } from './shared-list.ts';
import { chooseEndpoint } from './steps.ts';

/** What a virtual server, or its list, consists of in our table. */
export interface ServiceObjects {
  readonly elements: readonly ElementOf[];
  /** Chains that several virtual servers use. A full check deletes those that none uses any more. */
  readonly shared?: SharedChains | undefined;
  /** The virtual server whose shared list it is. */
  readonly list?: VirtualServerId;
}

export interface SharedChains {
  /** The name of the first. */
  readonly name: string;
  /** Each before those to which it leads; none for the chain of another virtual server's list. */
  readonly chains: () => readonly SharedChain[];
  /** Whether it is the chain of another virtual server's list. */
  readonly isBorrowed?: boolean;
}

/** What a virtual server has of its own. */
export interface ServiceParts {
  /** What leads to its endpoints, and these, unless they are a shared list. */
  readonly service: ServiceObjects;
  readonly list?: ServiceObjects;
}

export interface PartsOptions {
  /** The chain to which it leads, if it is another one than that of its state. */
  readonly first?: string;
  /** That of its list. */
  readonly target?: string | undefined;
  /** Another state: endpoints that have the same place there are left out. */
  readonly other?: ServiceState | undefined;
}

/** Returns the objects of a virtual server in a state. */
export function serviceParts(id: VirtualServerId, state: ServiceState, options: PartsOptions = {}): ServiceParts {
  if (state.list !== undefined && borrows(id, state)) {
    const name = listChainName(state.list);
    const shared = { name, chains: () => [], isBorrowed: true };
    return { service: { elements: [head(id, SERVICE_IPS, options.first ?? name)], shared } };
  }
  const target = sharedChains(id, state);
  const rest = changedEndpoints(
    state,
    hasOwnList(id, options.other) === hasOwnList(id, state) ? options.other : undefined,
  );
  if (!hasOwnList(id, state)) {
    const set = state.endpoints.length === 0 ? NO_ENDPOINT_SERVICES : SERVICE_IPS;
    const endpoints = rest.map(([endpoint, index]) => ({
      set: ENDPOINTS,
      key: endpointKey(id, index),
      data: { value: endpointData(endpoint) },
    }));
    return {
      service: { elements: [head(id, set, options.first ?? target?.name ?? REJECT), ...endpoints], shared: target },
    };
  }
  const chain = listChain(id, targetOf(state, options.target ?? target?.name ?? REJECT));
  const numbers = listNumbers(id);
  const endpoints = rest.map(([endpoint, index]) => ({
    set: SHARED_ENDPOINTS,
    key: sharedKey(numbers, index),
    data: { value: endpointData(endpoint) },
  }));
  return {
    service: {
      elements: [head(id, SERVICE_IPS, options.first ?? chain.name)],
      shared: { name: chain.name, chains: () => [{ chain, sets: [], elements: [] }] },
    },
    list: {
      elements: [head(id, LISTS, options.target ?? target?.name ?? REJECT), ...endpoints],
      shared: target,
      list: id,
    },
  };
}

/** Whether it lends its list. One without endpoints has none. */
export function hasOwnList(id: VirtualServerId, state: ServiceState | undefined): boolean {
  return state?.list !== undefined && state.endpoints.length > 0 && !borrows(id, state);
}

function targetOf({ endpoints, affinity }: ServiceState, name: string): ListTarget {
  return { name, count: endpoints.length, affinity };
}

function head(id: VirtualServerId, set: string, chain: string): ElementOf {
  return { set, key: serviceKey(id), data: { verdict: { code: NFT_VERDICT.goto, chain } } };
}

/** Returns the endpoints that are not in the same place in `other`, with their indexes. */
function changedEndpoints(
  { endpoints }: ServiceState,
  other: ServiceState | undefined,
): readonly (readonly [Endpoint, number])[] {
  return endpoints.flatMap((endpoint, index) => {
    const same = other?.endpoints[index];
    return same !== undefined && hasSameIdentity(same, endpoint) ? [] : [[endpoint, index] as const];
  });
}

/** Returns the chains to which a virtual server leads; undefined if it is the chain that rejects. */
function sharedChains({ address, protocol }: VirtualServerId, state: ServiceState): SharedChains | undefined {
  const { affinity: seconds, endpoints } = state;
  const family = familyOf(address);
  // Connections are rejected.
  if (endpoints.length === 0) return undefined;
  if (seconds > 0) {
    const group = { family, protocol, endpoints, seconds };
    return { name: affinityChainName(group), chains: () => affinityChains(group) };
  }
  const chain = chooseChain(endpoints.length, family);
  return { name: chain.name, chains: () => [{ chain, sets: [], elements: [] }] };
}

/** Chooses one of so many endpoints. */
export function chooseChain(count: number, family: IpFamily): ChainPlan {
  return { name: `choose-${count}`, rules: [chooseEndpoint(ENDPOINTS, count, family)] };
}

const CHOOSE = /^choose-(\d+)$/;

/** Returns what the name of a first chain tells; undefined if it is not ours. */
export function readFirstChain(name: string): { readonly count: number; readonly affinity: number } | undefined {
  const choose = CHOOSE.exec(name);
  if (choose !== null) return { count: Number(choose[1]), affinity: 0 };
  return name === REJECT ? { count: 0, affinity: 0 } : readAffinityChain(name);
}
