import { type IpFamily, familyOf } from '../../base/ip.ts';
import { NFT_VERDICT } from '../../netlink/family/nf-tables/data.ts';
import { hasSameIdentity } from '../../state/real-server.ts';
import type { VirtualServerId } from '../../state/virtual-server.ts';
import type { ServiceState } from '../service-ops.ts';
import { affinityChainName, affinityChains, readAffinityChain } from './affinity-chains.ts';
import { REJECT, type ChainPlan } from './base-chains.ts';
import { endpointData, endpointKey, serviceKey } from './keys.ts';
import type { ElementOf } from './nft-port.ts';
import type { SharedChain } from './shared-chain.ts';
import { ENDPOINTS, NO_ENDPOINT_SERVICES, SERVICE_IPS } from './sets.ts';
import { chooseEndpoint, goto } from './steps.ts';

/** What a virtual server consists of in our table. */
export interface ServiceObjects {
  readonly elements: readonly ElementOf[];
  /** Chains that several virtual servers use. A full check deletes those that none uses any more. */
  readonly shared?: SharedChains | undefined;
}

export interface SharedChains {
  /** The name of the first. */
  readonly name: string;
  /** Each before those to which it leads. */
  readonly chains: () => readonly SharedChain[];
}

/** Returns the objects of a virtual server; with `first`, as if it led to this chain. Without endpoints that are in the same place in `other`. */
export function serviceObjects(
  id: VirtualServerId,
  state: ServiceState,
  { first, other }: { readonly first?: string; readonly other?: ServiceState | undefined } = {},
): ServiceObjects {
  const { endpoints } = state;
  const shared = sharedChains(id, state);
  const chain = first ?? shared?.name ?? REJECT;
  return {
    elements: [
      {
        set: endpoints.length === 0 ? NO_ENDPOINT_SERVICES : SERVICE_IPS,
        key: serviceKey(id),
        data: { verdict: { code: NFT_VERDICT.goto, chain } },
      },
      ...endpoints.flatMap((endpoint, index) => {
        const same = other?.endpoints[index];
        if (same !== undefined && hasSameIdentity(same, endpoint)) return [];
        return { set: ENDPOINTS, key: endpointKey(id, index), data: { value: endpointData(endpoint) } };
      }),
    ],
    shared,
  };
}

/** Returns the chains to which a virtual server leads; undefined if it is the chain that rejects. */
function sharedChains({ address, protocol }: VirtualServerId, state: ServiceState): SharedChains | undefined {
  const { affinity: seconds, endpoints } = state;
  const family = familyOf(address);
  if (endpoints.length > 0 && seconds > 0) {
    const group = { family, protocol, endpoints, seconds };
    return { name: affinityChainName(group), chains: () => affinityChains(group) };
  }
  if (endpoints.length === 0 && seconds === 0) return undefined;
  const chain = endpoints.length === 0 ? rejectingChain(seconds) : chooseChain(endpoints.length, family);
  return { name: chain.name, chains: () => [{ chain, sets: [], elements: [] }] };
}

/** Chooses one of so many endpoints. */
export function chooseChain(count: number, family: IpFamily): ChainPlan {
  return { name: `choose-${count}`, rules: [chooseEndpoint(ENDPOINTS, count, family)] };
}

/** Rejects connections to virtual servers without endpoints that have this affinity. */
export function rejectingChain(affinity: number): ChainPlan {
  return { name: `${REJECT}-for-${affinity}s`, rules: [goto(REJECT)] };
}

const CHOOSE = /^choose-(\d+)$/;
const REJECTING = /^reject-chain(?:-for-(\d+)s)?$/;

/** Returns what the name of a first chain tells; undefined if it is not ours. */
export function readFirstChain(name: string): { readonly count: number; readonly affinity: number } | undefined {
  const choose = CHOOSE.exec(name);
  if (choose !== null) return { count: Number(choose[1]), affinity: 0 };
  const sticky = readAffinityChain(name);
  if (sticky !== undefined) return sticky;
  const rejecting = REJECTING.exec(name);
  return rejecting === null ? undefined : { count: 0, affinity: Number(rejecting[1] ?? 0) };
}
