import { formatHostPort } from '../../../base/ip.ts';
import type { ServedAddress } from './service-port.ts';

/** A chain of a service port, and the addresses for which it is the same. */
export interface Variant {
  readonly name: string;
  readonly first: ServedAddress;
  readonly addresses: readonly ServedAddress[];
}

/**
 * Divides addresses by a key, and names the chain of each group. The addresses of a Service usually have the same endpoints, or
 * two lists (of the internal and of the external traffic policy): their chains have kube-proxy's names, which are `names`.
 */
export function variantsOf(
  addresses: readonly ServedAddress[],
  keyOf: (address: ServedAddress) => string,
  names: readonly string[],
  furtherName: (firstAddress: string) => string,
): readonly Variant[] {
  return [...Map.groupBy(addresses, keyOf).values()].flatMap((group, index) => {
    const [first] = group;
    if (first === undefined) return [];
    const name = names[index] ?? furtherName(formatHostPort(first.id.address, first.id.port));
    return [{ name, first, addresses: group }];
  });
}
