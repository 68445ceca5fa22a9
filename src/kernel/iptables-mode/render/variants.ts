import { formatHostPort } from '../../../base/ip.ts';
import { type ChainKind, type ChainOwner, portChain } from './chain-names.ts';
import type { ServedAddress } from './service-port.ts';

/** A chain of a service port, and the addresses for which it is the same. */
export interface Variant {
  readonly name: string;
  readonly first: ServedAddress;
  readonly addresses: readonly ServedAddress[];
}

/**
 * Divides addresses by a key, and names the chain of each group. The addresses of a Service usually have the same endpoints, or
 * two lists (of the internal and of the external traffic policy): their chains have kube-proxy's names, which are of these kinds.
 * Further ones are of the last kind.
 */
export function variantsOf(
  port: ChainOwner,
  kinds: readonly [ChainKind, ...ChainKind[]],
  addresses: readonly ServedAddress[],
  keyOf: (address: ServedAddress) => string,
): readonly Variant[] {
  const last = kinds.at(-1) ?? kinds[0];
  return [...Map.groupBy(addresses, keyOf).values()].flatMap((group, index) => {
    const [first] = group;
    if (first === undefined) return [];
    const kind = kinds[index];
    const further = formatHostPort(first.id.address, first.id.port);
    return [
      { name: kind === undefined ? portChain(last, port, further) : portChain(kind, port), first, addresses: group },
    ];
  });
}

/** Returns the chain of each address. */
export function chainsByAddress(variants: readonly Variant[]): ReadonlyMap<ServedAddress, string> {
  return new Map(variants.flatMap(({ name, addresses }) => addresses.map((address) => [address, name] as const)));
}
