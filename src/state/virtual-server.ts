import { type IpAddress, compareIp, formatHostPort, isIp4 } from '../net/ip.ts';
import type { Port } from '../net/port.ts';
import { type Protocol, PROTOCOL_NUMBER } from '../net/protocol.ts';

/** What tells one IPVS virtual server from another. We never use firewall-mark services. */
export interface VirtualServerId {
  readonly address: IpAddress;
  readonly port: Port;
  readonly protocol: Protocol;
}

/** Flags of a virtual server. linux/ip_vs.h: IP_VS_SVC_F_*. */
export const VS_PERSISTENT = 0x0001;
/** Set by the kernel on every service in its hash table; never part of what we want. */
export const VS_HASHED = 0x0002;
export const VS_ONEPACKET = 0x0004;
/** IP_VS_SVC_F_SCHED1, for `sh` and `mh`: fall back to another server when the chosen one is unavailable. */
export const VS_SCHED_FALLBACK = 0x0008;
/** IP_VS_SVC_F_SCHED2, for `sh` and `mh`: hash the source port too. */
export const VS_SCHED_PORT = 0x0010;

/** A virtual server as we want it, and as the kernel reports it (without counters). */
export interface VirtualServer extends VirtualServerId {
  readonly scheduler: string;
  /** VS_* without VS_HASHED. */
  readonly flags: number;
  /** Persistence timeout in seconds; 0 unless VS_PERSISTENT. */
  readonly timeout: number;
  /** Granularity of persistence: prefix length, 32 or 128 for single clients. */
  readonly prefix: number;
}

/** A virtual server in 50 bits (IPv4) or a bigint (IPv6): quick to make, to compare and to use as a Map key. */
export type VirtualServerKey = (number | bigint) & { readonly __brand: 'VirtualServerKey' };

const PROTOCOL_BITS: Readonly<Record<Protocol, number>> = { TCP: 0, UDP: 1, SCTP: 2 };

export function virtualServerKey({ address, port, protocol }: VirtualServerId): VirtualServerKey {
  const low = port * 4 + PROTOCOL_BITS[protocol];
  return (isIp4(address) ? address * 0x4_0000 + low : (address << 18n) | BigInt(low)) as VirtualServerKey;
}

export function sameVirtualServer(a: VirtualServer, b: VirtualServer): boolean {
  return a.scheduler === b.scheduler && a.flags === b.flags && a.timeout === b.timeout && a.prefix === b.prefix;
}

export function formatVirtualServer(id: VirtualServerId): string {
  return `${id.protocol} ${formatHostPort(id.address, id.port)}`;
}

export function compareVirtualServer(a: VirtualServerId, b: VirtualServerId): number {
  return (
    compareIp(a.address, b.address) || a.port - b.port || PROTOCOL_NUMBER[a.protocol] - PROTOCOL_NUMBER[b.protocol]
  );
}
