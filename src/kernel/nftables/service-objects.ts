import { type IpAddress, type IpFamily, familyOf, formatIp } from '../../base/ip.ts';
import { NFT_VERDICT } from '../../netlink/family/nf-tables/data.ts';
import type { VirtualServerId } from '../../state/virtual-server.ts';
import type { ServiceState } from '../service-ops.ts';
import { REJECT, type ChainPlan } from './base-chains.ts';
import { endpointData, endpointKey, serviceKey } from './keys.ts';
import type { SetDefinition } from './nft-message.ts';
import type { ElementOf } from './nft-port.ts';
import {
  AFFINITY_ENDPOINTS,
  CLIENTS,
  ENDPOINTS,
  NO_ENDPOINT_SERVICES,
  SERVICE_IPS,
  affinityMap,
  affinitySet,
} from './sets.ts';
import { chooseEndpoint, chooseVerdict, goto, inSet, rememberSource, rule, translateTo } from './steps.ts';

/** What a virtual server consists of in our table. */
export interface ServiceObjects {
  readonly elements: readonly ElementOf[];
  /** Chains that several virtual servers use. A full check deletes those that none uses any more. */
  readonly shared: readonly ChainPlan[];
  /** Its own chains. A chain only refers to those after it. */
  readonly chains: readonly ChainPlan[];
  readonly sets: readonly SetDefinition[];
}

/** Returns the objects of a virtual server. */
export function serviceObjects(id: VirtualServerId, state: ServiceState): ServiceObjects {
  const { endpoints, affinity } = state;
  const first = firstChain(id, endpoints.length, affinity);
  const entry = {
    set: endpoints.length === 0 ? NO_ENDPOINT_SERVICES : SERVICE_IPS,
    key: serviceKey(id),
    data: { verdict: { code: NFT_VERDICT.goto, chain: first } },
  };
  const chosen = endpoints.map((endpoint, index) => ({
    set: ENDPOINTS,
    key: endpointKey(id, index),
    data: { value: endpointData(endpoint) },
  }));
  if (endpoints.length > 0 && affinity > 0) return withAffinity(id, state, first, [entry, ...chosen]);
  return {
    elements: [entry, ...chosen],
    shared: sharedChains(id.address, endpoints.length, affinity),
    chains: [],
    sets: [],
  };
}

/** Chooses one of so many endpoints. */
export function chooseChain(count: number, family: IpFamily): ChainPlan {
  return { name: `choose-${count}`, rules: [chooseEndpoint(ENDPOINTS, count, family)] };
}

/** Rejects connections to virtual servers without endpoints that have this affinity. */
export function rejectingChain(affinity: number): ChainPlan {
  return { name: `${REJECT}-for-${affinity}s`, rules: [goto(REJECT)] };
}

function sharedChains(address: IpAddress, count: number, affinity: number): readonly ChainPlan[] {
  if (count > 0) return [chooseChain(count, familyOf(address))];
  return affinity === 0 ? [] : [rejectingChain(affinity)];
}

/**
 * A client that is in the set of an endpoint goes to its chain; another client, to the chain of a random endpoint. That
 * chain remembers the client.
 *
 * When kube-proxy starts on a node with this table, it deletes each chain whose name has a slash, after it has deleted
 * the elements that lead there from the maps that it knows, and each set whose name begins with "affinity-". What else
 * refers to a chain or a set must therefore have other names: otherwise the kernel refuses everything that kube-proxy
 * writes.
 */
function withAffinity(
  id: VirtualServerId,
  { affinity, endpoints }: ServiceState,
  name: string,
  elements: ServiceObjects['elements'],
): ServiceObjects {
  const family = familyOf(id.address);
  const own = endpoints.map((endpoint) => {
    const text = `${serviceText(id)}__${formatName(endpoint.address)}/${endpoint.port}`;
    return { endpoint, chain: `endpoint-${text}`.replaceAll('/', '_'), set: `${CLIENTS}${text}` };
  });
  const map = affinityMapName(id);
  const remembered = own.map(({ chain, set }) => rule(inSet(set, 'source', family), goto(chain)));
  return {
    elements: [
      ...elements,
      ...own.map(({ chain }, index) => ({
        set: map,
        key: endpointKey(id, index),
        data: { verdict: { code: NFT_VERDICT.goto, chain } },
      })),
    ],
    shared: [],
    chains: [
      { name, rules: [...remembered, chooseVerdict(map, endpoints.length, family)] },
      ...own.map(({ endpoint, chain, set }) => ({
        name: chain,
        rules: [rememberSource(set, affinity, family), translateTo(id.protocol, endpoint)],
      })),
    ],
    sets: [affinityMap(map, family), ...own.map(({ set }) => affinitySet(set, affinity, family))],
  };
}

/** The name of the map of a virtual server's endpoints, if it has session affinity. */
export function affinityMapName(id: VirtualServerId): string {
  return `${AFFINITY_ENDPOINTS}${serviceText(id)}`;
}

/**
 * The chain to which the address and port of a virtual server lead. Its name tells the number of endpoints and the
 * affinity, so both can be read back from the element. Chains without affinity are shared.
 */
export function firstChain(id: VirtualServerId, count: number, affinity: number): string {
  const family = familyOf(id.address);
  if (count === 0) return affinity === 0 ? REJECT : rejectingChain(affinity).name;
  return affinity === 0 ? chooseChain(count, family).name : `service-${serviceText(id)}-of-${count}-for-${affinity}s`;
}

const CHOOSE = /^choose-(\d+)$/;
const OWN = /^service-.*-of-(\d+)-for-(\d+)s$/;
const REJECTING = /^reject-chain(?:-for-(\d+)s)?$/;

/** Returns what the name of a first chain tells; undefined if it is not ours. */
export function readFirstChain(name: string): { readonly count: number; readonly affinity: number } | undefined {
  const choose = CHOOSE.exec(name);
  if (choose !== null) return { count: Number(choose[1]), affinity: 0 };
  const own = OWN.exec(name);
  if (own !== null) return { count: Number(own[1]), affinity: Number(own[2]) };
  const rejecting = REJECTING.exec(name);
  return rejecting === null ? undefined : { count: 0, affinity: Number(rejecting[1] ?? 0) };
}

/** "10.96.0.1/tcp/80": nft reads names of letters, digits and these characters without quotes. */
export function serviceText({ address, protocol, port }: VirtualServerId): string {
  return `${formatName(address)}/${protocol.toLowerCase()}/${port}`;
}

function formatName(address: IpAddress): string {
  return formatIp(address).replaceAll(':', '.');
}
