import { createHash } from 'node:crypto';
import { type IpFamily, compareIp, formatIp } from '../../../base/ip.ts';
import type { Protocol } from '../../../base/protocol.ts';
import { NFT_VERDICT } from '../../../netlink/family/nf-tables/data.ts';
import type { Endpoint } from '../../../state/real-server.ts';
import { endpointData, indexKey } from './keys.ts';
import { AFFINITY_ENDPOINTS, CLIENTS, affinityMap, affinitySet } from './sets.ts';
import type { SharedChain } from './shared-chain.ts';
import { chooseIndex, goto, inSet, rememberClient, rule, translateTo } from './steps.ts';

/** Virtual servers with session affinity that have the same endpoints, in whatever order. */
export interface AffinityGroup {
  readonly family: IpFamily;
  readonly protocol: Protocol;
  readonly endpoints: readonly Endpoint[];
  readonly seconds: number;
}

const SERVICE = 'service-';
const ENDPOINT = 'endpoint-';

/** The chain to which these virtual servers lead. Its name tells the number of endpoints and the affinity. */
export function affinityChainName(group: AffinityGroup): string {
  return `${SERVICE}${groupText(group)}`;
}

const NAME = /^service-.*-of-(\d+)-for-(\d+)s$/;

/** Returns what such a name tells; undefined for others. */
export function readAffinityChain(name: string): { readonly count: number; readonly affinity: number } | undefined {
  const match = NAME.exec(name);
  return match === null ? undefined : { count: Number(match[1]), affinity: Number(match[2]) };
}

/** Whether a chain is one of affinityChains(). */
export function isAffinityChain(name: string): boolean {
  return readAffinityChain(name) !== undefined || isEndpointChain(name);
}

/** Whether a chain is one of affinityChains() that leads to one endpoint. */
export function isEndpointChain(name: string): boolean {
  return name.startsWith(ENDPOINT);
}

/**
 * The chains of these virtual servers, each before those to which it leads. A client that is in the set of an endpoint goes
 * to its chain; another client, to the chain of a random endpoint. That chain remembers the client, with the service
 * address. So more service addresses do not need more sets: to find a set by its name, the kernel goes through all sets
 * of the table (net/netfilter/nf_tables_api.c: nft_set_lookup).
 *
 * When kube-proxy starts on a node with this table, it deletes each chain whose name has a slash, after it has deleted
 * the elements that lead there from the maps that it knows, and each set whose name begins with "affinity-". What else
 * refers to a chain or a set must therefore have other names: otherwise the kernel refuses everything that kube-proxy
 * writes.
 */
export function affinityChains(group: AffinityGroup): readonly SharedChain[] {
  const { family, protocol, seconds } = group;
  const text = groupText(group);
  const map = `${AFFINITY_ENDPOINTS}${text}`;
  const own = ordered(group).map((endpoint) => {
    const name = endpointText(endpoint, group);
    return { endpoint, chain: `${ENDPOINT}${name}`, clients: `${CLIENTS}${name}` };
  });
  const remembered = own.map(({ chain, clients }) => rule(inSet(clients, 'service-and-source', family), goto(chain)));
  return [
    {
      chain: { name: `${SERVICE}${text}`, rules: [...remembered, chooseIndex(map, own.length)] },
      sets: [affinityMap(map)],
      elements: own.map(({ chain }, index) => ({
        set: map,
        key: indexKey(index),
        data: { verdict: { code: NFT_VERDICT.goto, chain } },
      })),
    },
    ...own.map(({ endpoint, chain, clients }) => ({
      chain: { name: chain, rules: [rememberClient(clients, seconds, family), translateTo(protocol, endpoint)] },
      sets: [affinitySet(clients, seconds, family)],
      elements: [],
    })),
  ];
}

function groupText(group: AffinityGroup): string {
  const hash = createHash('sha256');
  for (const endpoint of ordered(group)) hash.update(endpointData(endpoint));
  const { protocol, endpoints, seconds } = group;
  return `${hash.digest('hex').slice(0, 32)}/${protocol.toLowerCase()}-of-${endpoints.length}-for-${seconds}s`;
}

function ordered({ endpoints }: AffinityGroup): readonly Endpoint[] {
  return endpoints.toSorted((a, b) => compareIp(a.address, b.address) || a.port - b.port);
}

/** "tcp_10.244.0.1_8080-for-60s": nft reads names of letters, digits and these characters without quotes. */
function endpointText({ address, port }: Endpoint, { protocol, seconds }: AffinityGroup): string {
  return `${protocol.toLowerCase()}_${formatIp(address).replaceAll(':', '.')}_${port}-for-${seconds}s`;
}
