import { createHash } from 'node:crypto';
import type { Cidr } from '../../../base/cidr.ts';
import { type Interval, intervalsOf, networksOf } from '../../../base/cidr-intervals.ts';
import { type IpAddress, type IpFamily, familyOf, isUnspecified } from '../../../base/ip.ts';
import { NFT_VERDICT } from '../../../netlink/family/nf-tables/data.ts';
import type { NftElement } from '../../../netlink/family/nf-tables/element.ts';
import type { VirtualServerId } from '../../../state/virtual-server.ts';
import { addressAt, addressKey, addressLength, serviceKey } from './keys.ts';
import type { ElementOf, NftPort } from '../port/nft-port.ts';
import type { ServiceObjects, SharedChains } from './service-objects.ts';
import { FIREWALL_IPS, SOURCES, sourcesSet } from './sets.ts';
import type { SharedChain } from './shared-chain.ts';
import { DROP, RETURN, inSet, rule } from './steps.ts';

const FIREWALL = 'firewall-';
const SOURCES_CHAIN = /^firewall-(.*\/sources)$/;

/** Returns what drops packets to a port of a load balancer IP from outside of these source ranges. */
export function firewallObjects(id: VirtualServerId, ranges: readonly Cidr[]): ServiceObjects {
  const family = familyOf(id.address);
  const elements = sourceElements(intervalsOf(ranges), family);
  const text = sourcesText(elements, family);
  const name = `${FIREWALL}${text}`;
  return {
    elements: [{ set: FIREWALL_IPS, key: serviceKey(id), data: { verdict: { code: NFT_VERDICT.goto, chain: name } } }],
    shared: { name, chains: () => [firewallChain(text, elements, family)] },
  };
}

/** Whether a chain of this name checks source ranges. */
export function isFirewallChain(name: string): boolean {
  return SOURCES_CHAIN.test(name);
}

/** Returns a chain of source ranges, without the elements of its set; undefined for others. */
export function firewallByName(name: string, family: IpFamily): SharedChains | undefined {
  const text = SOURCES_CHAIN.exec(name)?.[1];
  return text === undefined ? undefined : { name, chains: () => [firewallChain(text, [], family)] };
}

/** What a set of source ranges has. */
export interface FoundRanges {
  readonly elements: readonly ElementOf[];
  /** Undefined if they are not those that the name says. */
  readonly networks: readonly Cidr[] | undefined;
}

/** Reads the source ranges that a chain checks. */
export async function readRanges(port: NftPort, family: IpFamily, chain: string): Promise<FoundRanges> {
  const text = SOURCES_CHAIN.exec(chain)?.[1];
  if (text === undefined) return { elements: [], networks: undefined };
  const set = `${SOURCES}${text}`;
  const elements: ElementOf[] = [];
  await port.eachElement(family, set, ({ key, isEnd }) => {
    elements.push({ set, key: key.slice(), ...(isEnd === true ? { isEnd } : {}) });
  });
  const intervals = intervalsIn(elements, family);
  const isNamed = sourcesText(sourceElements(intervals, family), family) === text;
  return { elements, networks: isNamed ? networksOf(intervals) : undefined };
}

/** Returns the intervals that the elements of a set are, in any order. */
export function intervalsIn(elements: Iterable<NftElement>, family: IpFamily): readonly Interval[] {
  const intervals: { from: IpAddress; until: IpAddress | undefined }[] = [];
  for (const { key, isEnd } of [...elements].sort((a, b) => Buffer.compare(a.key, b.key))) {
    const address = addressAt(key, 0, family);
    const last = intervals.at(-1);
    if (isEnd !== true) intervals.push({ from: address, until: undefined });
    else if (last !== undefined) last.until = address;
  }
  return intervals;
}

/**
 * The chain of all ports that have these source ranges. With other ranges, a port leads to another chain: a packet would
 * miss ranges of a set that changes meanwhile.
 */
function firewallChain(text: string, elements: readonly NftElement[], family: IpFamily): SharedChain {
  const set = `${SOURCES}${text}`;
  return {
    chain: { name: `${FIREWALL}${text}`, rules: [rule(inSet(set, 'source', family), RETURN), DROP] },
    sets: [sourcesSet(set, family)],
    elements: elements.map((element) => ({ set, ...element })),
  };
}

function sourcesText(elements: readonly NftElement[], family: IpFamily): string {
  const length = addressLength(family) + 1;
  const bytes = new Uint8Array(elements.length * length);
  for (const [at, { key, isEnd }] of elements.entries()) {
    bytes.set(key, at * length);
    bytes[(at + 1) * length - 1] = isEnd === true ? 1 : 0;
  }
  return `${createHash('sha256').update(bytes).digest('hex').slice(0, 32)}/sources`;
}

/**
 * Returns the elements of intervals as nft writes them: in order. If no interval begins at the lowest address, an end
 * element there comes first.
 */
function sourceElements(intervals: readonly Interval[], family: IpFamily): readonly NftElement[] {
  const [first] = intervals;
  const elements: NftElement[] = [];
  if (first !== undefined && !isUnspecified(first.from)) {
    elements.push({ key: new Uint8Array(addressLength(family)), isEnd: true });
  }
  for (const { from, until } of intervals) {
    elements.push({ key: addressKey(from) });
    if (until !== undefined) elements.push({ key: addressKey(until), isEnd: true });
  }
  return elements;
}
