import { type IpAddress, formatHostPort, isIp4 } from '../base/ip.ts';
import type { Port } from '../base/port.ts';

/** How packets get to a real server. linux/ip_vs.h: IP_VS_CONN_F_MASQ, IP_VS_CONN_F_TUNNEL, IP_VS_CONN_F_DROUTE. */
export const FORWARDING = { nat: 0, tunnel: 2, route: 3 } as const;

/** A destination of a virtual server. */
export interface RealServer {
  readonly address: IpAddress;
  readonly port: Port;
  /** A real server with weight 0 is draining: it gets no new connections. */
  readonly weight: number;
  /** The number of connections from which the kernel chooses it no more, and below which it does again; absent: 0, none. */
  readonly upperThreshold?: number;
  readonly lowerThreshold?: number;
  /** A value of FORWARDING, or what another program has set: 1 local, 4 bypass. Absent: NAT, as in kube-proxy. */
  readonly forwarding?: number;
}

/** Identifies a real server within its virtual server. */
type Endpoint = Pick<RealServer, 'address' | 'port'>;

/** A real server as the kernel reports it. */
export interface ObservedRealServer extends RealServer {
  readonly forwarding: number;
  readonly activeConnections: number;
  readonly inactiveConnections: number;
  readonly persistentConnections: number;
}

/** Address and port combined into one number (IPv4) or bigint (IPv6). */
export type RealServerKey = (number | bigint) & { readonly __brand: 'RealServerKey' };

export function realServerKey({ address, port }: Endpoint): RealServerKey {
  return (isIp4(address) ? address * 0x1_0000 + port : (address << 16n) | BigInt(port)) as RealServerKey;
}

/** Returns the address and port of a key. */
export function realServerOf(key: RealServerKey): { readonly address: IpAddress; readonly port: number } {
  return typeof key === 'bigint'
    ? { address: (key >> 16n) as IpAddress, port: Number(key & 0xffffn) }
    : { address: Math.floor(key / 0x1_0000) as IpAddress, port: key % 0x1_0000 };
}

export function hasSameIdentity(a: Endpoint, b: Endpoint): boolean {
  return a.address === b.address && a.port === b.port;
}

/** Whether a real server needs no edit; `a` and `b` have the same identity. */
export function hasSameServerSettings(a: RealServer, b: RealServer): boolean {
  return (
    a.weight === b.weight &&
    forwardingOf(a) === forwardingOf(b) &&
    (a.upperThreshold ?? 0) === (b.upperThreshold ?? 0) &&
    (a.lowerThreshold ?? 0) === (b.lowerThreshold ?? 0)
  );
}

export function forwardingOf({ forwarding }: Pick<RealServer, 'forwarding'>): number {
  return forwarding ?? FORWARDING.nat;
}

export function formatRealServer(server: { readonly address: IpAddress; readonly port: number }): string {
  return formatHostPort(server.address, server.port);
}

/** Returns the settings of a real server, for the log. NAT and the lack of a limit are not mentioned. */
export function serverSettingsText(server: Omit<RealServer, 'address' | 'port'>): string {
  const { weight, forwarding, upperThreshold = 0, lowerThreshold = 0 } = server;
  const limit = upperThreshold === 0 ? '' : ` limit=${upperThreshold}/${lowerThreshold}`;
  const method = Object.entries(FORWARDING).find(([, value]) => value === forwarding)?.[0];
  return `weight=${weight}${limit}${method === undefined || method === 'nat' ? '' : ` forwarding=${method}`}`;
}
