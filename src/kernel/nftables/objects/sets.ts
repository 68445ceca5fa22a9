import type { IpFamily } from '../../../base/ip.ts';
import {
  NFT_DATA_VERDICT,
  NFT_SET_EVAL,
  NFT_SET_INTERVAL,
  NFT_SET_MAP,
  NFT_SET_TIMEOUT,
} from '../../../netlink/family/nf-tables/set.ts';
import { type TypeOf, setNotes } from '../../../netlink/family/nf-tables/user-data.ts';
import { type AddressTraits, addressTraits } from '../../../state/address-traits.ts';
import type { IpSet } from '../../../state/ip-set.ts';
import { setName, unlimitedSet } from '../../../state/set-roles.ts';
import { CLUSTER_IPS, HAIRPINS } from '../../../state/nft-set-name.ts';
import { SHARED_KEY_LENGTH, addressLength, serviceKeyLength } from './keys.ts';
import type { SetDefinition } from '../port/nft-message.ts';

/** Type numbers of nft, which it stores in the kernel (nftables: datatype.h). A concatenation has 6 bits for each. */
export const TYPE = { integer: 4, ipv4: 7, ipv6: 8, protocol: 12, port: 13 } as const;

function concatenation(...types: readonly number[]): number {
  return types.reduce((sum, type) => sum * 64 + type, 0);
}

function addressType(family: IpFamily): number {
  return family === 4 ? TYPE.ipv4 : TYPE.ipv6;
}

function serviceTypes(family: IpFamily): readonly number[] {
  return [addressType(family), TYPE.protocol, TYPE.port];
}

/** Maps and their keys, all of which begin with a virtual server's address, protocol and port. */
export const SERVICE_IPS = 'service-ips';
export const NO_ENDPOINT_SERVICES = 'no-endpoint-services';
export const FIREWALL_IPS = 'firewall-ips';
/** The endpoints of each virtual server by their index. */
export const ENDPOINTS = 'service-endpoints';
/** Lists of endpoints that several virtual servers have, by the virtual server that lends its list. */
export const LISTS = 'shared-lists';
/** The endpoints of each shared list by their index. */
export const SHARED_ENDPOINTS = 'shared-endpoints';
/**
 * Prefix of the map of virtual servers with session affinity and the same endpoints, which has the chains of these. They do
 * not share one map: after each new verdict the kernel validates every chain, and for each chain all elements of the maps
 * that it uses (net/netfilter/nft_lookup.c: nft_lookup_validate), so the time would grow with the square of their number.
 */
export const AFFINITY_ENDPOINTS = 'endpoints-';

function verdictsByService(name: string, comment: string, family: IpFamily): SetDefinition {
  return {
    name,
    flags: NFT_SET_MAP,
    keyType: concatenation(...serviceTypes(family)),
    keyLength: serviceKeyLength(family),
    dataType: NFT_DATA_VERDICT,
    // As nft has it; the kernel does not use it for verdicts.
    dataLength: 16,
    userData: setNotes({ comment, concatenated: true }),
  };
}

/** What nft calls a field of the packet: its protocol (ip, ip6, th) and the number of the field in it. */
function destinationAddress(family: IpFamily): TypeOf {
  return family === 4 ? { of: 'payload', protocol: 12, field: 12 } : { of: 'payload', protocol: 13, field: 9 };
}
const DESTINATION_PORT: TypeOf = { of: 'payload', protocol: 11, field: 2 };
const TRANSPORT_PROTOCOL: TypeOf = { of: 'meta', key: 16 };
/** The modulus is not compared with that of rules. */
const RANDOM_NUMBER: TypeOf = { of: 'numgen', type: 1, modulus: 1 };

/** @param key the type of each field, and what nft calls it */
function endpointMap(
  name: string,
  comment: string,
  key: readonly (readonly [type: number, of: TypeOf])[],
  keyLength: number,
  family: IpFamily,
): SetDefinition {
  return {
    name,
    flags: NFT_SET_MAP,
    keyType: concatenation(...key.map(([type]) => type)),
    keyLength,
    dataType: concatenation(addressType(family), TYPE.port),
    dataLength: addressLength(family) + 4,
    userData: setNotes({
      comment,
      concatenated: true,
      key: key.map(([, of]) => of),
      data: [destinationAddress(family), DESTINATION_PORT],
    }),
  };
}

function endpoints(family: IpFamily): SetDefinition {
  const key = [
    [addressType(family), destinationAddress(family)],
    [TYPE.protocol, TRANSPORT_PROTOCOL],
    [TYPE.port, DESTINATION_PORT],
    [TYPE.integer, RANDOM_NUMBER],
  ] as const;
  return endpointMap(ENDPOINTS, 'endpoints of each service port, by index', key, serviceKeyLength(family) + 4, family);
}

/** A list has numbers in place of an address: nft has no word for another address than one of the packet. */
function sharedEndpoints(family: IpFamily): SetDefinition {
  const key = Array.from({ length: SHARED_KEY_LENGTH / 4 }, () => [TYPE.integer, RANDOM_NUMBER] as const);
  return endpointMap(SHARED_ENDPOINTS, 'endpoints of shared lists, by index', key, SHARED_KEY_LENGTH, family);
}

/** The chains of the endpoints of virtual servers with session affinity. */
export function affinityMap(name: string): SetDefinition {
  return {
    name,
    flags: NFT_SET_MAP,
    keyType: TYPE.integer,
    keyLength: 4,
    dataType: NFT_DATA_VERDICT,
    dataLength: 16,
    userData: setNotes({
      comment: 'chains of these endpoints, by index',
      concatenated: false,
      key: RANDOM_NUMBER,
      data: 'verdict',
    }),
  };
}

/** Prefix of the sets of clients. */
export const CLIENTS = 'clients-';
/** Made once: a change of a large Service with session affinity defines thousands of these sets. */
const NOTES_OF_CLIENTS = setNotes({ comment: 'clients of this endpoint', concatenated: true });

/**
 * The clients of one endpoint with session affinity, with the service port that each uses. Rules add them. A set without a
 * size holds 65,535; further clients have no affinity. A higher limit would let spoofed source addresses fill the kernel's
 * memory.
 */
export function affinitySet(name: string, timeoutSeconds: number, family: IpFamily): SetDefinition {
  return {
    name,
    flags: NFT_SET_TIMEOUT | NFT_SET_EVAL,
    keyType: concatenation(...serviceTypes(family), addressType(family)),
    keyLength: serviceKeyLength(family) + addressLength(family),
    timeout: timeoutSeconds * 1_000,
    userData: NOTES_OF_CLIENTS,
  };
}

/** Prefix of the sets of source ranges. */
export const SOURCES = 'sources-';

/** The addresses that may connect to ports of load balancer IPs. */
export function sourcesSet(name: string, family: IpFamily): SetDefinition {
  return {
    name,
    flags: NFT_SET_INTERVAL,
    keyType: addressType(family),
    keyLength: addressLength(family),
    userData: setNotes({ comment: 'source ranges', concatenated: false }),
  };
}

/** A set of the ports of virtual servers whose addresses have these traits. */
export interface TraitSet {
  readonly name: string;
  readonly traits: AddressTraits;
  readonly comment: string;
}

/** Each virtual server is in one of these. */
export const TRAIT_SETS: readonly TraitSet[] = [
  { name: 'cluster-ip-ports', traits: addressTraits('cluster', true), comment: 'ports of cluster IPs' },
  { name: 'external-ip-ports', traits: addressTraits('external', false), comment: 'ports of external IPs' },
  {
    name: 'external-ip-ports-local',
    traits: addressTraits('external', true),
    comment: 'ports of external IPs, policy Local',
  },
  { name: 'load-balancer-ports', traits: addressTraits('loadBalancer', false), comment: 'ports of load balancer IPs' },
  {
    name: 'load-balancer-ports-local',
    traits: addressTraits('loadBalancer', true),
    comment: 'ports of load balancer IPs, policy Local',
  },
  { name: 'nodeports', traits: addressTraits('nodePort', false), comment: 'node ports of each address' },
  {
    name: 'nodeports-local',
    traits: addressTraits('nodePort', true),
    comment: 'node ports of each address, policy Local',
  },
];

/** The ports of load balancer IPs whose source ranges contain this node, with the address itself as the client. */
export const FIREWALL_NODES = 'firewall-nodes';

/** A set of what Services share, which the plan knows as an ipset. */
export interface NodeSet {
  readonly definition: SetDefinition;
  readonly ipSet: IpSet;
}

/** The sets of what Services share, by the names of their ipsets. */
export const NODE_SETS: Readonly<Record<IpFamily, ReadonlyMap<string, NodeSet>>> = { 4: nodeSets(4), 6: nodeSets(6) };

function nodeSets(family: IpFamily): ReadonlyMap<string, NodeSet> {
  const sets = [
    ['LOOP-BACK', portsWithClient(HAIRPINS, 'endpoints that may be local, and their own address', family)],
    ['IPVS-IPS', plainSet(CLUSTER_IPS, 'cluster IPs', [addressType(family)], addressLength(family))],
  ] as const;
  return new Map(
    sets.map(([role, definition]) => [setName(role, family), { definition, ipSet: unlimitedSet(role, family) }]),
  );
}

function portsWithClient(name: string, comment: string, family: IpFamily): SetDefinition {
  const types = [...serviceTypes(family), addressType(family)];
  return plainSet(name, comment, types, serviceKeyLength(family) + addressLength(family));
}

function plainSet(name: string, comment: string, types: readonly number[], keyLength: number): SetDefinition {
  const userData = setNotes({ comment, concatenated: types.length > 1 });
  return { name, flags: 0, keyType: concatenation(...types), keyLength, userData };
}

/** Whether a set has the clients of an endpoint. */
export function isOfClients(name: string): boolean {
  return name.startsWith(CLIENTS);
}

/** Whether a set or map exists as long as one of the chains that virtual servers share. */
export function isOfSharedChain(name: string): boolean {
  return [CLIENTS, AFFINITY_ENDPOINTS, SOURCES].some((prefix) => name.startsWith(prefix));
}

/** Returns the definitions of all sets that always exist. */
export function constantSets(family: IpFamily): readonly SetDefinition[] {
  return [
    verdictsByService(SERVICE_IPS, 'service ports with endpoints', family),
    verdictsByService(NO_ENDPOINT_SERVICES, 'service ports without endpoints', family),
    verdictsByService(FIREWALL_IPS, 'load balancer IPs with source ranges', family),
    endpoints(family),
    verdictsByService(LISTS, 'lists of endpoints that several service ports have', family),
    sharedEndpoints(family),
    ...TRAIT_SETS.map(({ name, comment }) => plainSet(name, comment, serviceTypes(family), serviceKeyLength(family))),
    portsWithClient(FIREWALL_NODES, 'ports whose source ranges contain this node', family),
    ...Array.from(NODE_SETS[family].values(), ({ definition }) => definition),
  ];
}
