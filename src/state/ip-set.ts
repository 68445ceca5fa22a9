import { type Cidr, formatCidr } from '../base/cidr.ts';
import { type IpAddress, type IpFamily, formatIp } from '../base/ip.ts';
import type { Port } from '../base/port.ts';
import type { Protocol } from '../base/protocol.ts';
import { virtualServerKey } from './virtual-server.ts';

/** The ipset types that kube-proxy's ipvs mode uses. */
export type IpSetType = 'hash:ip' | 'hash:ip,port' | 'hash:ip,port,ip' | 'hash:ip,port,net' | 'bitmap:port';

/** A kernel ipset. A bitmap:port has no family in the kernel; its `family` is that of the rules which use the set. */
export interface IpSet {
  /** At most 31 characters (linux/netfilter/ipset/ip_set.h: IPSET_MAXNAMELEN with its NUL). */
  readonly name: string;
  readonly type: IpSetType;
  readonly family: IpFamily;
  /** The capacity of a hash set; always 65536 for a bitmap:port. */
  readonly maxEntries: number;
}

/** Whether entries of one set can be entries of the other. */
export function hasSameType(a: IpSet, b: IpSet): boolean {
  return a.type === b.type && (a.type === 'bitmap:port' || a.family === b.family);
}

/** Returns the name of the temporary set used while a set grows or changes its type. It does not begin with KUBE-. */
export function twinName(name: string): string {
  return TWIN_PREFIX + (name.startsWith('KUBE-') ? name.slice('KUBE-'.length) : name.slice(0, 31 - TWIN_PREFIX.length));
}

export const TWIN_PREFIX = 'KUBE~';

/** An ipset entry. Its fields depend on the type of the set. */
export type IpSetEntry =
  | { readonly type: 'hash:ip'; readonly address: IpAddress }
  | { readonly type: 'hash:ip,port'; readonly address: IpAddress; readonly protocol: Protocol; readonly port: Port }
  | {
      readonly type: 'hash:ip,port,ip';
      readonly address: IpAddress;
      readonly protocol: Protocol;
      readonly port: Port;
      readonly address2: IpAddress;
    }
  | {
      readonly type: 'hash:ip,port,net';
      readonly address: IpAddress;
      readonly protocol: Protocol;
      readonly port: Port;
      /** Never a /0, which the kernel's hash:net types cannot hold. */
      readonly network: Cidr;
    }
  | { readonly type: 'bitmap:port'; readonly port: Port };

/** Identifies an entry within its set. Frequent kinds of entries have a number (IPv6: a bigint), not a string. */
export type IpSetEntryKey = (number | bigint | string) & { readonly __brand: 'IpSetEntryKey' };

export function ipSetEntryKey(entry: IpSetEntry): IpSetEntryKey {
  return plainKey(entry) as IpSetEntryKey;
}

function plainKey(entry: IpSetEntry): number | bigint | string {
  switch (entry.type) {
    case 'hash:ip':
      return entry.address;
    case 'hash:ip,port':
      return virtualServerKey(entry);
    case 'bitmap:port':
      return entry.port;
    case 'hash:ip,port,ip':
      // Nearly all entries of this type are LOOP-BACK entries, whose two addresses are equal.
      return entry.address === entry.address2 ? virtualServerKey(entry) : formatIpSetEntry(entry);
    case 'hash:ip,port,net':
      return formatIpSetEntry(entry);
  }
}

/** Returns the entry as `ipset save` writes it. */
export function formatIpSetEntry(entry: IpSetEntry): string {
  switch (entry.type) {
    case 'hash:ip':
      return formatIp(entry.address);
    case 'hash:ip,port':
      return `${formatIp(entry.address)},${entry.protocol.toLowerCase()}:${entry.port}`;
    case 'hash:ip,port,ip':
      return `${formatIp(entry.address)},${entry.protocol.toLowerCase()}:${entry.port},${formatIp(entry.address2)}`;
    case 'hash:ip,port,net':
      return `${formatIp(entry.address)},${entry.protocol.toLowerCase()}:${entry.port},${formatNetwork(entry.network)}`;
    case 'bitmap:port':
      return String(entry.port);
  }
}

// ipset omits the prefix length of a single address.
function formatNetwork(network: Cidr): string {
  const single = network.prefix === (typeof network.address === 'number' ? 32 : 128);
  return single ? formatIp(network.address) : formatCidr(network);
}
