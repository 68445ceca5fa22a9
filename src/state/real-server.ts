import { type IpAddress, formatHostPort, isIp4 } from '../base/ip.ts';
import type { Port } from '../base/port.ts';

/** How packets get to a real server. linux/ip_vs.h: IP_VS_CONN_F_MASQ, IP_VS_CONN_F_TUNNEL, IP_VS_CONN_F_DROUTE. */
export const FORWARDING = { nat: 0, tunnel: 2, route: 3 } as const;

/** The header of a tunnel's packets. linux/ip_vs.h: IP_VS_CONN_F_TUNNEL_TYPE_*. */
export const TUNNEL_TYPE = { ipip: 0, gue: 1, gre: 2 } as const;
/** linux/ip_vs.h, IP_VS_TUNNEL_ENCAP_FLAG_CSUM: with a checksum. */
export const TUNNEL_CHECKSUM = 1;

/** A destination of a virtual server. */
export interface RealServer {
  readonly address: IpAddress;
  readonly port: Port;
  /** A real server with weight 0 is draining: it gets no new connections. */
  readonly weight: number;
  /**
   * At `upperThreshold` connections the kernel stops choosing it, below `lowerThreshold` it resumes; absent: 0, no
   * limit.
   */
  readonly upperThreshold?: number;
  readonly lowerThreshold?: number;
  /** A value of FORWARDING, or what another program has set: 1 local, 4 bypass. Absent: NAT, as in kube-proxy. */
  readonly forwarding?: number;
  /** A value of TUNNEL_TYPE; absent: 0. The kernel has it since Linux 5.3. */
  readonly tunnelType?: number;
  /** The UDP port of a GUE tunnel; absent: 0. */
  readonly tunnelPort?: number;
  /** TUNNEL_CHECKSUM or 0 (absent). */
  readonly tunnelFlags?: number;
}

/** Identifies a real server within its virtual server. */
export type Endpoint = Pick<RealServer, 'address' | 'port'>;

export interface ObservedRealServer extends RealServer {
  readonly forwarding: number;
  readonly activeConnections: number;
  readonly inactiveConnections: number;
  readonly persistentConnections: number;
}

/** A real server as the kernel has it, as far as is known: the connections are if it was read. */
export type FoundRealServer = RealServer &
  Partial<Pick<ObservedRealServer, 'activeConnections' | 'inactiveConnections'>>;

/** Address and port combined into one number (IPv4) or bigint (IPv6). */
export type RealServerKey = (number | bigint) & { readonly __brand: 'RealServerKey' };

export function realServerKey({ address, port }: Endpoint): RealServerKey {
  return (isIp4(address) ? address * 0x1_0000 + port : (address << 16n) | BigInt(port)) as RealServerKey;
}

/** Returns the address and port of a key. */
export function realServerOf(key: RealServerKey): Endpoint {
  return typeof key === 'bigint'
    ? { address: (key >> 16n) as IpAddress, port: Number(key & 0xffffn) as Port }
    : { address: Math.floor(key / 0x1_0000) as IpAddress, port: (key % 0x1_0000) as Port };
}

export function hasSameIdentity(a: Endpoint, b: Endpoint): boolean {
  return a.address === b.address && a.port === b.port;
}

/** Whether a real server needs no edit; `a` and `b` have the same identity. */
export function hasSameServerSettings(a: RealServer, b: RealServer): boolean {
  return (
    a.weight === b.weight &&
    forwardingOf(a) === forwardingOf(b) &&
    hasSameTunnel(a, b) &&
    (a.upperThreshold ?? 0) === (b.upperThreshold ?? 0) &&
    (a.lowerThreshold ?? 0) === (b.lowerThreshold ?? 0)
  );
}

export function isSameServer(a: RealServer, b: RealServer): boolean {
  return hasSameIdentity(a, b) && hasSameServerSettings(a, b);
}

/**
 * Compares tunnels of wanted real servers. Without the method tunnel, a tunnel only serves earlier connections (see
 * keepTunnel).
 */
function hasSameTunnel(a: RealServer, b: RealServer): boolean {
  return (
    forwardingOf(a) !== FORWARDING.tunnel ||
    ((a.tunnelType ?? 0) === (b.tunnelType ?? 0) &&
      (a.tunnelPort ?? 0) === (b.tunnelPort ?? 0) &&
      (a.tunnelFlags ?? 0) === (b.tunnelFlags ?? 0))
  );
}

/**
 * Returns the wanted server with the tunnel of the current one, if it is not a tunnel itself. The kernel looks up the
 * tunnel of an open connection in its real server, but keeps the connection's forwarding method.
 */
export function keepTunnel(wanted: RealServer, current: RealServer): RealServer {
  return forwardingOf(wanted) === FORWARDING.tunnel ? wanted : { ...wanted, ...tunnelFields(current) };
}

/** Returns the forwarding method and the tunnel; nothing for NAT, which is the default. */
export function forwardingFields(server: RealServer): Partial<RealServer> {
  const forwarding = forwardingOf(server);
  return { ...(forwarding === FORWARDING.nat ? {} : { forwarding }), ...tunnelFields(server) };
}

function tunnelFields({ tunnelType = 0, tunnelPort = 0, tunnelFlags = 0 }: RealServer): Partial<RealServer> {
  return {
    ...(tunnelType === 0 ? {} : { tunnelType }),
    ...(tunnelPort === 0 ? {} : { tunnelPort }),
    ...(tunnelFlags === 0 ? {} : { tunnelFlags }),
  };
}

/** Whether it has, or had, a tunnel of another type than IPIP. */
export function hasTunnel({ tunnelType = 0, tunnelPort = 0, tunnelFlags = 0 }: RealServer): boolean {
  return tunnelType !== 0 || tunnelPort !== 0 || tunnelFlags !== 0;
}

/** Returns "gue:6080", "gre" or "" (IPIP). */
function tunnelText({ tunnelType = 0, tunnelPort = 0 }: Pick<RealServer, 'tunnelType' | 'tunnelPort'>): string {
  const name = tunnelTypeName(tunnelType);
  return name === 'ipip' ? '' : `-${name}${tunnelPort === 0 ? '' : `:${tunnelPort}`}`;
}

/** Returns the name of a type, as ipvsadm has it; its number if this program does not know it. */
export function tunnelTypeName(type: number): string {
  return Object.entries(TUNNEL_TYPE).find(([, value]) => value === type)?.[0] ?? String(type);
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
  return `weight=${weight}${limit}${method === undefined || method === 'nat' ? '' : ` forwarding=${method}${tunnelText(server)}`}`;
}
