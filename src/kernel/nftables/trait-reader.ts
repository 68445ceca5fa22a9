import type { Cidr } from '../../base/cidr.ts';
import type { IpFamily } from '../../base/ip.ts';
import {
  type VirtualServer,
  type VirtualServerId,
  type VirtualServerKey,
  virtualServerKey,
} from '../../state/virtual-server.ts';
import { readRanges } from './objects/firewall-objects.ts';
import { addressAt, clientKey, serviceKey, serviceKeyLength, serviceOfKey } from './objects/keys.ts';
import type { ElementOf, NftPort } from './port/nft-port.ts';
import { FIREWALL_IPS, FIREWALL_NODES, TRAIT_SETS, type TraitSet } from './objects/sets.ts';
import { chainOf } from './objects/shared-list.ts';
import type { AtGeneration } from './table-reader.ts';
import { type FoundTraits, traitSetOf } from './objects/trait-elements.ts';

export type TraitsByServer = ReadonlyMap<VirtualServerKey, FoundTraits>;

/** A virtual server, maybe with the traits that it is expected to have. */
export type ExpectedTraits = VirtualServerId & Pick<VirtualServer, 'traits'>;

const ALL: readonly string[] = [...TRAIT_SETS.map(({ name }) => name), FIREWALL_IPS, FIREWALL_NODES];
const BY_NAME: ReadonlyMap<string, TraitSet> = new Map(TRAIT_SETS.map((set) => [set.name, set]));

/** Returns the traits of all virtual servers of a family. */
export async function readTraits(port: NftPort, family: IpFamily): Promise<TraitsByServer> {
  const assembly = new Assembly(family);
  for (const set of ALL) await port.eachElement(family, set, (element) => assembly.add({ set, ...element }));
  return assembly.found;
}

/** Returns the traits of these virtual servers. The cost grows with the number of ids. */
export async function findTraits(
  port: NftPort,
  family: IpFamily,
  ids: readonly VirtualServerId[],
): Promise<AtGeneration<TraitsByServer>> {
  const { generation, elements } = await port.lookUp(family, { elements: ids.flatMap((id) => keysIn(ALL, id)) });
  return { generation, found: assembled(family, elements) };
}

/** Returns which elements tell whether virtual servers have the traits that they are expected to have. */
export function expectedElements(ids: readonly ExpectedTraits[]): readonly Pick<ElementOf, 'set' | 'key'>[] {
  return ids.flatMap((id) => {
    const set = id.traits && traitSetOf(id.traits);
    if (set === undefined) return [];
    return keysIn(set.traits.kind === 'loadBalancer' ? [set.name, FIREWALL_IPS, FIREWALL_NODES] : [set.name], id);
  });
}

/** Returns the traits of the virtual servers that are as expected, by those of expectedElements() that exist. */
export function expectedTraits(family: IpFamily, elements: readonly ElementOf[]): TraitsByServer {
  return new Map([...assembled(family, elements)].filter(([, { set }]) => set !== undefined));
}

function assembled(family: IpFamily, elements: readonly ElementOf[]): TraitsByServer {
  const assembly = new Assembly(family);
  for (const element of elements) assembly.add(element);
  return assembly.found;
}

function keysIn(sets: readonly string[], id: VirtualServerId): readonly Pick<ElementOf, 'set' | 'key'>[] {
  return sets.map((set) => ({ set, key: set === FIREWALL_NODES ? clientKey(id, id.address) : serviceKey(id) }));
}

/** Returns the source ranges that the chains of these virtual servers check, by the names of the chains. */
export async function readAllRanges(
  port: NftPort,
  family: IpFamily,
  found: Iterable<FoundTraits>,
): Promise<ReadonlyMap<string, readonly Cidr[]>> {
  const chains = new Set<string>();
  for (const { chain } of found) if (chain !== undefined) chains.add(chain);
  const ranges = new Map<string, readonly Cidr[]>();
  for (const chain of chains) {
    const { networks } = await readRanges(port, family, chain);
    if (networks !== undefined) ranges.set(chain, networks);
  }
  return ranges;
}

type Draft = { -readonly [Name in keyof FoundTraits]: FoundTraits[Name] };

/** Puts together what the sets say of each virtual server. */
class Assembly {
  readonly #family: IpFamily;
  readonly #found = new Map<VirtualServerKey, Draft>();

  constructor(family: IpFamily) {
    this.#family = family;
  }

  get found(): TraitsByServer {
    return this.#found;
  }

  add(element: ElementOf): void {
    const { set, key, data } = element;
    const id = serviceOfKey(key, this.#family);
    if (id === undefined) return;
    const draft = this.#draftOf(id);
    const traitSet = BY_NAME.get(set);
    if (traitSet !== undefined && draft.set === undefined) draft.set = traitSet;
    else if (set === FIREWALL_IPS) {
      draft.chain = chainOf(data);
    } else if (set === FIREWALL_NODES && addressAt(key, serviceKeyLength(this.#family), this.#family) === id.address) {
      draft.itself = true;
    } else draft.others = [...draft.others, { set, key: key.slice() }];
  }

  #draftOf(id: VirtualServerId): Draft {
    const key = virtualServerKey(id);
    let draft = this.#found.get(key);
    if (draft === undefined) {
      this.#found.set(key, (draft = { id, set: undefined, chain: undefined, itself: false, others: NONE }));
    }
    return draft;
  }
}

const NONE: readonly ElementOf[] = [];
