import { type IpAddress, compareIp, formatHostPort, isIp4 } from '../net/ip.ts';
import type { Port } from '../net/port.ts';

/** A destination of a virtual server; always forwarded by masquerading (NAT), as kube-proxy does. */
export interface RealServer {
  readonly address: IpAddress;
  readonly port: Port;
  /** 0 means: no new connections (draining). */
  readonly weight: number;
}

/** What tells one real server of a virtual server from the others. */
type Endpoint = Pick<RealServer, 'address' | 'port'>;

/** What the kernel adds when it reports a real server. */
export interface ObservedRealServer extends RealServer {
  /** linux/ip_vs.h IP_VS_CONN_F_FWD_MASK values: 0 masquerade, 1 local, 2 tunnel, 3 direct route, 4 bypass. */
  readonly forwarding: number;
  readonly activeConnections: number;
  readonly inactiveConnections: number;
  readonly persistentConnections: number;
}

/** address:port as one number (IPv4) or bigint (IPv6). */
export type RealServerKey = (number | bigint) & { readonly __brand: 'RealServerKey' };

export function realServerKey({ address, port }: Endpoint): RealServerKey {
  return (isIp4(address) ? address * 0x1_0000 + port : (address << 16n) | BigInt(port)) as RealServerKey;
}

export function sameRealServer(a: Endpoint, b: Endpoint): boolean {
  return a.address === b.address && a.port === b.port;
}

export function compareRealServer(a: Endpoint, b: Endpoint): number {
  return compareIp(a.address, b.address) || a.port - b.port;
}

export function formatRealServer(server: Endpoint): string {
  return formatHostPort(server.address, server.port);
}
