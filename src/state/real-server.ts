import { type IpAddress, formatHostPort, isIp4 } from '../base/ip.ts';
import type { Port } from '../base/port.ts';

/** A destination of a virtual server. The forwarding method is always masquerading (NAT), as in kube-proxy. */
export interface RealServer {
  readonly address: IpAddress;
  readonly port: Port;
  /** A real server with weight 0 is draining: it gets no new connections. */
  readonly weight: number;
  /** The number of connections from which the kernel chooses it no more, and below which it does again; absent: 0, none. */
  readonly upperThreshold?: number;
  readonly lowerThreshold?: number;
}

/** Identifies a real server within its virtual server. */
type Endpoint = Pick<RealServer, 'address' | 'port'>;

/** A real server as the kernel reports it. */
export interface ObservedRealServer extends RealServer {
  /** linux/ip_vs.h IP_VS_CONN_F_FWD_MASK values: 0 masquerade, 1 local, 2 tunnel, 3 direct route, 4 bypass. */
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

/** Whether what can be edited of a real server is equal. */
export function hasSameValues(a: RealServer, b: RealServer): boolean {
  return (
    a.weight === b.weight &&
    (a.upperThreshold ?? 0) === (b.upperThreshold ?? 0) &&
    (a.lowerThreshold ?? 0) === (b.lowerThreshold ?? 0)
  );
}

export function hasSameIdentity(a: Endpoint, b: Endpoint): boolean {
  return a.address === b.address && a.port === b.port;
}

export function formatRealServer(server: { readonly address: IpAddress; readonly port: number }): string {
  return formatHostPort(server.address, server.port);
}
