import type { Cidr } from '../../../base/cidr.ts';
import { familyOf } from '../../../base/ip.ts';
import { NFT_VERDICT } from '../../../netlink/family/nf-tables/data.ts';
import { type AddressTraits, addressTraits } from '../../../state/address-traits.ts';
import type { VirtualServerId } from '../../../state/virtual-server.ts';
import { firewallByName, firewallObjects } from './firewall-objects.ts';
import { clientKey, serviceKey } from './keys.ts';
import type { ElementOf } from '../port/nft-port.ts';
import type { ServiceObjects } from './service-objects.ts';
import { FIREWALL_IPS, FIREWALL_NODES, TRAIT_SETS, type TraitSet } from './sets.ts';

/** What the table says of the traits of a virtual server. */
export interface FoundTraits {
  readonly id: VirtualServerId;
  /** The set that it is in; undefined: none. */
  readonly set: TraitSet | undefined;
  /** The chain that checks its source ranges; empty if its element in the map does something else. */
  readonly chain: string | undefined;
  /** Whether it admits its own address. */
  readonly itself: boolean;
  /** Elements that a virtual server of ours does not have beside these: another program wrote them. */
  readonly others: readonly ElementOf[];
}

export function traitSetOf({ kind, keepsSource }: AddressTraits): TraitSet | undefined {
  return TRAIT_SETS.find(({ traits }) => traits.kind === kind && traits.keepsSource === keepsSource);
}

/** Returns the objects that a virtual server with these traits has in the table. */
export function traitObjects(id: VirtualServerId, traits: AddressTraits | undefined): ServiceObjects {
  const set = traits === undefined ? undefined : traitSetOf(traits);
  const ofSet = set === undefined ? [] : [{ set: set.name, key: serviceKey(id) }];
  const admitted = traits?.admitted;
  if (admitted === undefined) return { elements: ofSet };
  const { elements, shared } = firewallObjects(id, admitted.ranges);
  return { elements: [...ofSet, ...(admitted.itself ? [nodeElement(id)] : []), ...elements], shared };
}

/** Returns the objects that were found of a virtual server. */
export function foundObjects({ id, set, chain, itself, others }: FoundTraits): ServiceObjects {
  const key = serviceKey(id);
  const data = { verdict: { code: NFT_VERDICT.goto, chain: chain ?? '' } };
  const elements = [
    ...(set === undefined ? [] : [{ set: set.name, key }]),
    ...(itself ? [nodeElement(id)] : []),
    ...(chain === undefined ? [] : [{ set: FIREWALL_IPS, key, data }]),
    ...others,
  ];
  if (chain === undefined) return { elements };
  return { elements, shared: firewallByName(chain, familyOf(id.address)) ?? { name: chain, chains: () => [] } };
}

/** Returns the traits; undefined if the table says something that no traits of ours would be. */
export function traitsOf(
  { set, chain, itself, others }: FoundTraits,
  rangesOf: ReadonlyMap<string, readonly Cidr[]>,
): AddressTraits | undefined {
  if (set === undefined || others.length > 0) return undefined;
  const { kind, keepsSource } = set.traits;
  if (chain === undefined) return itself ? undefined : set.traits;
  const ranges = rangesOf.get(chain);
  return ranges && addressTraits(kind, keepsSource, { ranges, itself });
}

function nodeElement(id: VirtualServerId): ElementOf {
  return { set: FIREWALL_NODES, key: clientKey(id, id.address) };
}
