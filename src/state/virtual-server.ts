import { type IpAddress, compareIp, formatHostPort, isIp4 } from '../base/ip.ts';
import type { Port } from '../base/port.ts';
import { type AddressTraits, hasSameTraits } from './address-traits.ts';
import { type Protocol, PROTOCOL_NUMBER } from '../base/protocol.ts';

/** Identifies an IPVS virtual server. This program uses none that are defined by a firewall mark. */
export interface VirtualServerId {
  readonly address: IpAddress;
  readonly port: Port;
  readonly protocol: Protocol;
}

/** Returns only what identifies a virtual server, for what is kept. */
export function virtualServerId({ address, port, protocol }: VirtualServerId): VirtualServerId {
  return { address, port, protocol };
}

/** Flags of a virtual server. linux/ip_vs.h: IP_VS_SVC_F_*. */
export const VS_PERSISTENT = 0x0001;
/** Set by the kernel on every virtual server; never part of the wanted state. */
export const VS_HASHED = 0x0002;
/** IP_VS_SVC_F_ONEPACKET, for UDP: every datagram is scheduled anew. */
export const VS_ONE_PACKET = 0x0004;
/** IP_VS_SVC_F_SCHED1, for `sh` and `mh`: fall back to another server when the chosen one is unavailable. */
export const VS_SCHED_FALLBACK = 0x0008;
/** IP_VS_SVC_F_SCHED2, for `sh` and `mh`: hash the source port too. */
export const VS_SCHED_PORT = 0x0010;

/** The scheduler of a virtual server that is incomplete in its table: nothing leads packets to its endpoints. */
export const NOWHERE = 'none';

/** A virtual server, either wanted or as the kernel reports it (without counters). */
export interface VirtualServer extends VirtualServerId {
  readonly scheduler: string;
  /** VS_* flags except VS_HASHED. */
  readonly flags: number;
  /** Persistence timeout in seconds; 0 if VS_PERSISTENT is not set. */
  readonly timeout: number;
  /** Persistence granularity as a prefix length: 32 (IPv4) or 128 (IPv6) for single clients. */
  readonly prefix: number;
  /** The Service port that it belongs to (see servicePortName); only iptables mode has it. */
  readonly servicePort?: string;
  /** How long a removed real server may keep its connections, in ms; 0: no limit. Only userspace mode has it here. */
  readonly drainTimeout?: number;
  /** The properties of its address; only iptables mode has them here. */
  readonly traits?: AddressTraits;
  /**
   * The virtual server whose list of real servers it uses, if those of its Service port share one. If it is another
   * one, it has no real servers in its own name. Only nftables mode has it.
   */
  readonly list?: VirtualServerId | undefined;
}

/** Address, port and protocol combined into a Map key: a 50-bit number (IPv4) or a bigint (IPv6). */
export type VirtualServerKey = (number | bigint) & { readonly __brand: 'VirtualServerKey' };

const PROTOCOL_BITS: Readonly<Record<Protocol, number>> = { TCP: 0, UDP: 1, SCTP: 2 };

export function virtualServerKey({ address, port, protocol }: VirtualServerId): VirtualServerKey {
  const low = port * 4 + PROTOCOL_BITS[protocol];
  return (isIp4(address) ? address * 0x4_0000 + low : (address << 18n) | BigInt(low)) as VirtualServerKey;
}

export function hasSameSettings(a: VirtualServer, b: VirtualServer): boolean {
  return (
    a.scheduler === b.scheduler &&
    a.flags === b.flags &&
    a.timeout === b.timeout &&
    a.prefix === b.prefix &&
    a.servicePort === b.servicePort &&
    a.drainTimeout === b.drainTimeout &&
    hasSameList(a, b) &&
    hasSameTraits(a.traits, b.traits)
  );
}

/** A virtual server, as far as it says whose list of real servers it uses. */
export type ListUser = Pick<VirtualServer, 'list'>;

export function hasSameList({ list: a }: ListUser, { list: b }: ListUser): boolean {
  return a === b || (a !== undefined && b !== undefined && compareVirtualServer(a, b) === 0);
}

/** Whether it has the real servers of another one. */
export function borrows(id: VirtualServerId, { list }: ListUser): boolean {
  return list !== undefined && compareVirtualServer(list, id) !== 0;
}

export function formatVirtualServer(id: VirtualServerId): string {
  return `${id.protocol} ${formatHostPort(id.address, id.port)}`;
}

export function compareVirtualServer(a: VirtualServerId, b: VirtualServerId): number {
  return (
    compareIp(a.address, b.address) || a.port - b.port || PROTOCOL_NUMBER[a.protocol] - PROTOCOL_NUMBER[b.protocol]
  );
}
