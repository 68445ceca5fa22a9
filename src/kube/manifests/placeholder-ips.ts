import { createHash } from 'node:crypto';
import { type Ip4, formatIp } from '../../base/ip.ts';
import type { Service } from '../objects/objects.ts';
import { objectKey } from '../objects/source.ts';

/** 198.18.0.0, the start of the block for benchmarks (RFC 2544). */
const IPV4_BLOCK = 0xc6_12_00_00;

/** In blocks that no cluster uses; that of IPv6 is for documentation (RFC 3849). */
function placeholder(family: string, number: number): string {
  return family === 'IPv6' ? `2001:db8::${number.toString(16)}` : formatIp((IPV4_BLOCK + number) as Ip4);
}

/**
 * Gives Services without a cluster IP one of each of their families, where no API server allocates it. The address
 * follows from the name, so that it stays the same while other Services come and go.
 */
export class PlaceholderIps {
  /** A sentence about each Service that got one. */
  readonly notes: string[] = [];
  readonly #taken = new Set<number>();

  give(service: Service): Service {
    const name = objectKey(service.meta);
    let number = createHash('sha256').update(name).digest().readUInt16BE();
    while (this.#taken.has(number)) number++;
    this.#taken.add(number);
    const families = service.ipFamilies.length === 0 ? ['IPv4'] : service.ipFamilies;
    const clusterIPs = families.map((family) => placeholder(family, number));
    this.notes.push(
      `${name} has no clusterIP: planned with ${clusterIPs.join(' and ')} in place of what the cluster gives it`,
    );
    return { ...service, clusterIP: clusterIPs[0] ?? '', clusterIPs };
  }
}
