import { isIp4 } from '../../../base/ip.ts';
import type { Endpoint } from '../../../state/real-server.ts';
import type { VirtualServerKey } from '../../../state/virtual-server.ts';

/** Shorter lists are read whole: that is one exchange. */
const LEAST = 16;

/** Endpoints by their index; undefined where the endpoint is none of those that were expected. */
export type RecalledList = readonly (Endpoint | undefined)[];

/**
 * In which order the table has the endpoints of the larger virtual servers, as they were read or written last: 4 bytes for
 * each. A change of one endpoint thus need not read the others. Whoever writes must look up first what it replaces: this
 * is a hint, which another program may have made wrong.
 */
export class ListOrder {
  readonly #hashes = new Map<VirtualServerKey, Uint32Array>();

  remember(key: VirtualServerKey, endpoints: readonly Endpoint[]): void {
    if (endpoints.length < LEAST) this.#hashes.delete(key);
    else this.#hashes.set(key, Uint32Array.from(endpoints, hashOf));
  }

  forget(key: VirtualServerKey): void {
    this.#hashes.delete(key);
  }

  clear(): void {
    this.#hashes.clear();
  }

  /** Returns what is remembered of a list with so many endpoints; undefined if it must be read whole. */
  recall(key: VirtualServerKey, count: number, expected: readonly Endpoint[]): RecalledList | undefined {
    const hashes = this.#hashes.get(key);
    if (hashes?.length !== count) return undefined;
    const left = new Map(expected.map((endpoint) => [hashOf(endpoint), endpoint]));
    if (left.size < expected.length) return undefined;
    const recalled: (Endpoint | undefined)[] = [];
    const seen = new Set<number>();
    for (const hash of hashes) {
      recalled.push(left.get(hash));
      seen.add(hash);
    }
    return seen.size === count ? recalled : undefined;
  }

  /** Whether a list can be what is remembered of it. */
  matches(key: VirtualServerKey, endpoints: readonly Endpoint[]): boolean {
    const hashes = this.#hashes.get(key);
    return (
      hashes?.length === endpoints.length && endpoints.every((endpoint, index) => hashOf(endpoint) === hashes[index])
    );
  }
}

/** Of 32 bits. Those of IPv4 endpoints with the same port are all different. */
function hashOf({ address, port }: Endpoint): number {
  const ofAddress = isIp4(address) ? address : fold(address);
  return (ofAddress ^ Math.imul(port, 0x9e37_79b1)) >>> 0;
}

/** FNV-1a over words of 32 bits. */
function fold(address: bigint): number {
  let hash = 0x811c_9dc5;
  for (let shift = 96n; shift >= 0n; shift -= 32n) {
    hash = Math.imul(hash ^ Number(BigInt.asUintN(32, address >> shift)), 0x0100_0193);
  }
  return hash;
}
