import { type Cidr, formatCidr } from '../net/cidr.ts';
import { type IpAddress, type IpFamily, formatIp } from '../net/ip.ts';
import type { Port } from '../net/port.ts';
import type { Protocol } from '../net/protocol.ts';
import { virtualServerKey } from './virtual-server.ts';

/** The ipset types that kube-proxy's ipvs mode uses. */
export type IpSetType = 'hash:ip' | 'hash:ip,port' | 'hash:ip,port,ip' | 'hash:ip,port,net' | 'bitmap:port';

/** One set as it exists in the kernel. Bitmaps of ports have no family of their own: `family` is then whom they serve. */
export interface IpSet {
  /** At most 31 characters (linux/netfilter/ipset/ip_set.h: IPSET_MAXNAMELEN with its NUL). */
  readonly name: string;
  readonly type: IpSetType;
  readonly family: IpFamily;
  /** Most entries a hash set takes; a bitmap:port always has the range 0 to 65535, and 65536 here. */
  readonly maxEntries: number;
}

/** An entry; which fields are there follows from the set's type. */
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
      /** Never a /0: the kernel's hash:net types cannot hold it. */
      readonly network: Cidr;
    }
  | { readonly type: 'bitmap:port'; readonly port: Port };

/** Tells an entry from every other of its set. A number (IPv6: a bigint) for those that come with each service. */
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
      // A pod that reaches itself, as nearly all of these are; the others' keys are text.
      return entry.address === entry.address2 ? virtualServerKey(entry) : formatIpSetEntry(entry);
    case 'hash:ip,port,net':
      return formatIpSetEntry(entry);
  }
}

/** The entry as `ipset save` writes it. */
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

// ipset leaves the prefix of a single address out.
function formatNetwork(network: Cidr): string {
  const single = network.prefix === (typeof network.address === 'number' ? 32 : 128);
  return single ? formatIp(network.address) : formatCidr(network);
}
