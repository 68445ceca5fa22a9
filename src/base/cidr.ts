import { type Ip4, type Ip6, type IpAddress, type IpFamily, compareIp, familyOf, formatIp, isIp4 } from './ip.ts';
import { readIp } from './read-ip.ts';

/** A network address with its prefix length. The address has no host bits set. */
export interface Cidr {
  readonly address: IpAddress;
  /** Prefix length: 0 to 32 for IPv4, 0 to 128 for IPv6. */
  readonly prefix: number;
}

function network(address: IpAddress, prefix: number): IpAddress {
  if (isIp4(address)) {
    return (prefix === 0 ? 0 : (address & (0xffff_ffff << (32 - prefix))) >>> 0) as Ip4;
  }
  const host = BigInt(128 - prefix);
  return ((address >> host) << host) as Ip6;
}

/** Returns the network with this prefix length that contains the address. `prefix` must be valid for its family. */
export function cidrOf(address: IpAddress, prefix: number): Cidr {
  return { address: network(address, prefix), prefix };
}

/** Parses "10.0.0.0/8" or "fd00::/64" and clears the host bits. Returns undefined if the text is not a valid CIDR. */
export function parseCidr(text: string): Cidr | undefined {
  const [, written = '', length] = /^([^/]+)\/(\d{1,3})$/.exec(text) ?? [];
  const address = readIp(written);
  const prefix = Number(length);
  return address === undefined || prefix > (isIp4(address) ? 32 : 128) ? undefined : cidrOf(address, prefix);
}

export function formatCidr(cidr: Cidr): string {
  return `${formatIp(cidr.address)}/${cidr.prefix}`;
}

export function cidrFamily(cidr: Cidr): IpFamily {
  return familyOf(cidr.address);
}

export function cidrContains(cidr: Cidr, address: IpAddress): boolean {
  return familyOf(address) === cidrFamily(cidr) && network(address, cidr.prefix) === cidr.address;
}

/** Whether the network is a single address. */
export function isHost({ address, prefix }: Cidr): boolean {
  return prefix === (isIp4(address) ? 32 : 128);
}

/** Returns whether one of these networks contains an address; single addresses cost no search. */
export function containedIn(cidrs: readonly Cidr[]): (address: IpAddress) => boolean {
  const hosts = new Set(cidrs.filter(isHost).map(({ address }) => address));
  const wide = cidrs.filter((cidr) => !isHost(cidr));
  return (address) => hosts.has(address) || wide.some((cidr) => cidrContains(cidr, address));
}

export function cidrsOverlap(a: Cidr, b: Cidr): boolean {
  return cidrContains(a, b.address) || cidrContains(b, a.address);
}

export function compareCidr(a: Cidr, b: Cidr): number {
  return compareIp(a.address, b.address) || a.prefix - b.prefix;
}
