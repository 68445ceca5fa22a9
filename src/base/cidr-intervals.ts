import { type Cidr, compareCidr } from './cidr.ts';
import { type Ip4, type Ip6, type IpAddress, isIp4 } from './ip.ts';

/** A range of addresses. Without `until`, it extends to the last address. */
export interface Interval {
  readonly from: IpAddress;
  /** The first address after the range. */
  readonly until: IpAddress | undefined;
}

/** Returns the addresses of these networks as sorted intervals, none of which touches another. */
export function intervalsOf(networks: readonly Cidr[]): readonly Interval[] {
  const found: { from: IpAddress; until: IpAddress | undefined }[] = [];
  for (const network of networks.toSorted(compareCidr)) {
    const last = found.at(-1);
    // The networks are sorted: nothing follows an interval without an end.
    if (last !== undefined && last.until === undefined) break;
    const until = afterOf(network);
    if (last?.until === undefined || network.address > last.until) found.push({ from: network.address, until });
    else if (until === undefined || until > last.until) last.until = until;
  }
  return found;
}

/** The first address after a network; undefined if there is none. */
function afterOf({ address, prefix }: Cidr): IpAddress | undefined {
  if (isIp4(address)) {
    const after = address + 2 ** (32 - prefix);
    return after < 2 ** 32 ? (after as Ip4) : undefined;
  }
  const after = address + (1n << BigInt(128 - prefix));
  return after < 1n << 128n ? (after as Ip6) : undefined;
}

/** Returns the fewest networks that contain the same addresses, sorted. */
export function fewestNetworks(networks: readonly Cidr[]): readonly Cidr[] {
  return networksOf(intervalsOf(networks));
}

/** Returns the fewest networks that contain the addresses of these intervals, sorted. The addresses are of one family. */
export function networksOf(intervals: readonly Interval[]): readonly Cidr[] {
  return intervals.flatMap(({ from, until }) => {
    const bits = isIp4(from) ? 32 : 128;
    const end = until === undefined ? 1n << BigInt(bits) : BigInt(until);
    const networks: Cidr[] = [];
    for (let at = BigInt(from); at < end;) {
      let host = 0;
      const isNetwork = (size: bigint): boolean => at % size === 0n && at + size <= end;
      while (host < bits && isNetwork(1n << BigInt(host + 1))) host += 1;
      const address = isIp4(from) ? (Number(at) as Ip4) : (at as Ip6);
      networks.push({ address, prefix: bits - host });
      at += 1n << BigInt(host);
    }
    return networks;
  });
}
