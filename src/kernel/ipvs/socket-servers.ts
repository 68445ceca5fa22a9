import { type Ip4, ip4FromBytes } from '../../base/ip.ts';
import { PROTOCOL_NUMBER, protocolFromNumber } from '../../base/protocol.ts';
import { readBe16, readU16, readU32 } from '../../netlink/codec/bytes.ts';
import { loadAddon } from '../../netlink/transport/addon.ts';
import type { IpvsDestination } from '../../netlink/family/ipvs/destination.ts';
import type { IpvsServiceId } from '../../netlink/family/ipvs/service.ts';

/** AF_INET, SOL_IP. There is nothing like this for IPv6. */
const [DOMAIN, LEVEL] = [2, 0];
/** linux/ip_vs.h: IP_VS_SO_GET_INFO, IP_VS_SO_GET_SERVICES, IP_VS_SO_GET_DESTS. */
const OPTION = { info: 1153, services: 1154, destinations: 1156 } as const;

/** struct ip_vs_getinfo. */
const INFO = { size: 12, services: 8 };
/** struct ip_vs_get_services and its entries, struct ip_vs_service_entry, aligned to 8 bytes. */
const SERVICES = { first: 8, size: 104, protocol: 0, address: 4, port: 8, destinations: 44 };
/** struct ip_vs_get_dests and its entries, aligned to 8 bytes. */
const LIST = { protocol: 0, address: 4, port: 8, count: 16, first: 24 };
/** struct ip_vs_dest_entry. The flags have the forwarding method in IP_VS_CONN_F_FWD_MASK. */
const ENTRY = { size: 96, address: 0, port: 4, flags: 8, weight: 12, upperThreshold: 16, lowerThreshold: 20 };
const FORWARDING_MASK = 7;

/** A virtual server of IPv4, with the destinations that it may have, sorted by address and port. */
export interface ExpectedDestinations {
  readonly id: IpvsServiceId & { readonly address: Ip4 };
  readonly destinations: readonly IpvsDestination[];
}

/** A virtual server of IPv4 and how many destinations it has, also of IPv6. */
export interface DestinationCount extends IpvsServiceId {
  readonly count: number;
}

/**
 * Returns the counts of all virtual servers of IPv4, except those of a firewall mark; none if the kernel does not say them. Throws a
 * NativeError if there is no socket.
 *
 * @param netns path of the network namespace; default: that of this process
 */
export function countDestinations(netns: string | undefined): DestinationCount[] {
  const info = new Uint8Array(INFO.size);
  read(netns, OPTION.info, info);
  const services = readU32(info, INFO.services);
  const bytes = new Uint8Array(SERVICES.first + services * SERVICES.size);
  writeU32(bytes, 0, services);
  read(netns, OPTION.services, bytes);
  const counts: DestinationCount[] = [];
  for (let at = SERVICES.first; at < bytes.length; at += SERVICES.size) {
    const protocol = protocolFromNumber(readU16(bytes, at + SERVICES.protocol));
    // The rest is zeros if there are fewer now, or if the kernel has refused.
    if (protocol === undefined) continue;
    const [address, port] = [ip4FromBytes(bytes, at + SERVICES.address), readBe16(bytes, at + SERVICES.port)];
    counts.push({ address, port, protocol, count: readU32(bytes, at + SERVICES.destinations) });
  }
  return counts;
}

/**
 * Returns for each virtual server whether these are its destinations of IPv4; countDestinations() shows whether it has others.
 * Reading by getsockopt(2), the older interface of IPVS, costs a fraction of a dump, but lacks tunnels: they are not
 * compared. Throws a NativeError if there is no socket.
 */
export function haveDestinations(netns: string | undefined, expected: readonly ExpectedDestinations[]): boolean[] {
  const lengths = Uint32Array.from(expected, ({ destinations }) => LIST.first + (destinations.length + 1) * ENTRY.size);
  const bytes = new Uint8Array(lengths.reduce((sum, length) => sum + length, 0));
  let start = 0;
  for (const [index, { id, destinations }] of expected.entries()) {
    bytes[start + LIST.protocol] = PROTOCOL_NUMBER[id.protocol];
    for (let byte = 0; byte < 4; byte++) bytes[start + LIST.address + byte] = id.address >>> (24 - 8 * byte);
    bytes[start + LIST.port] = id.port >> 8;
    bytes[start + LIST.port + 1] = id.port;
    // Room for one more than expected: its entry stays zero if there is none.
    writeU32(bytes, start + LIST.count, destinations.length + 1);
    start += lengths[index] as number;
  }
  read(netns, OPTION.destinations, bytes, lengths);
  start = 0;
  return expected.map(({ destinations }, index) => {
    const first = start + LIST.first;
    start += lengths[index] as number;
    return isList(bytes, first, destinations);
  });
}

function read(
  netns: string | undefined,
  option: number,
  bytes: Uint8Array,
  lengths = Uint32Array.of(bytes.length),
): void {
  loadAddon().socketOptions(netns, DOMAIN, LEVEL, option, bytes, lengths);
}

function writeU32(bytes: Uint8Array, at: number, value: number): void {
  for (let byte = 0; byte < 4; byte++) bytes[at + byte] = value >>> (8 * byte);
}

/** IPVS has each destination once, in any order. The entry after the last one must be zero. */
function isList(bytes: Uint8Array, first: number, destinations: readonly IpvsDestination[]): boolean {
  for (let index = 0; index < destinations.length; index++) {
    const at = first + index * ENTRY.size;
    const expected = find(destinations, ip4FromBytes(bytes, at + ENTRY.address), readBe16(bytes, at + ENTRY.port));
    if (expected === undefined || !hasSettings(bytes, at, expected)) return false;
  }
  const end = first + destinations.length * ENTRY.size;
  return readU32(bytes, end + ENTRY.address) === 0 && readBe16(bytes, end + ENTRY.port) === 0;
}

function find(sorted: readonly IpvsDestination[], address: Ip4, port: number): IpvsDestination | undefined {
  let [low, high] = [0, sorted.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    const found = sorted[middle] as IpvsDestination;
    if (found.address === address && found.port === port) return found;
    if (found.address < address || (found.address === address && found.port < port)) low = middle + 1;
    else high = middle;
  }
  return undefined;
}

function hasSettings(bytes: Uint8Array, at: number, expected: IpvsDestination): boolean {
  const { weight, forwarding = 0, upperThreshold = 0, lowerThreshold = 0 } = expected;
  return (
    readU32(bytes, at + ENTRY.weight) === weight &&
    (readU32(bytes, at + ENTRY.flags) & FORWARDING_MASK) === forwarding &&
    readU32(bytes, at + ENTRY.upperThreshold) === upperThreshold &&
    readU32(bytes, at + ENTRY.lowerThreshold) === lowerThreshold
  );
}
