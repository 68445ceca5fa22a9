import type { NftData } from '../../src/netlink/family/nf-tables/data.ts';
import type { NftElement } from '../../src/netlink/family/nf-tables/element.ts';
import { NFT_SET_EVAL, NFT_SET_INTERVAL } from '../../src/netlink/family/nf-tables/set.ts';
import type { SetDefinition } from '../../src/kernel/nftables/port/nft-message.ts';
import type { Passage } from './ruleset.ts';

/** A set or a map with its elements. */
export class NftElements {
  readonly #definition: SetDefinition;
  readonly #byKey = new Map<string, NftElement>();
  /** Of a set of intervals: the bounds, and whether an interval begins there. */
  readonly #bounds: { readonly key: string; readonly begins: boolean }[] = [];

  constructor(definition: SetDefinition) {
    this.#definition = definition;
  }

  add(element: NftElement): void {
    if (element.key.length === 0) throw new Error('unknown element: a catch-all one');
    if (this.#isOfIntervals) this.#bounds.push({ key: hex(element.key), begins: element.isEnd !== true });
    else this.#byKey.set(hex(element.key), element);
  }

  get keyLength(): number {
    return this.#definition.keyLength;
  }

  /** Whether the set has a key. A client is found in what earlier packets have added. */
  has(key: Uint8Array, passage: Passage): boolean {
    if (this.#isOfIntervals) return this.#isInInterval(hex(key));
    if (!this.#hasClients) return this.#byKey.has(hex(key));
    const clients = passage.clients.get(this.#definition.name);
    if (clients?.has(hex(key)) !== true) return false;
    passage.affinity = clients.get(hex(key));
    return true;
  }

  dataOf(key: Uint8Array): NftData | undefined {
    return this.#byKey.get(hex(key))?.data;
  }

  /** @param milliseconds the timeout of the rule that adds it */
  addClient(key: Uint8Array, milliseconds: bigint | number | undefined, passage: Passage): void {
    const { name, timeout } = this.#definition;
    const clients = passage.clients.get(name) ?? new Map<string, number | undefined>();
    passage.clients.set(name, clients.set(hex(key), Number(milliseconds ?? timeout) / 1_000));
  }

  get #isOfIntervals(): boolean {
    return (this.#definition.flags & NFT_SET_INTERVAL) !== 0;
  }

  get #hasClients(): boolean {
    return (this.#definition.flags & NFT_SET_EVAL) !== 0;
  }

  #isInInterval(key: string): boolean {
    const before = this.#bounds.filter((bound) => bound.key <= key).sort((a, b) => (a.key < b.key ? -1 : 1));
    return before.at(-1)?.begins === true;
  }
}

function hex(bytes: Uint8Array): string {
  return Buffer.from(bytes).toString('hex');
}
