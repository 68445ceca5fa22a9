import { type IpAddress, type IpFamily, parseIp } from '../../src/base/ip.ts';
import { type Port, toPort } from '../../src/base/port.ts';
import type { Protocol } from '../../src/base/protocol.ts';
import type { IpSet, IpSetEntry, IpSetType } from '../../src/state/ip-set.ts';
import type { RealServer } from '../../src/state/real-server.ts';
import type { VirtualServer } from '../../src/state/virtual-server.ts';

/** Short ways to say objects, for tests. All throw on text that cannot be read. */
export function ip(text: string): IpAddress {
  const address = parseIp(text);
  if (address === undefined) throw new Error(`not an address: ${text}`);
  return address;
}

export function port(number: number): Port {
  const value = toPort(number);
  if (value === undefined) throw new Error(`not a port: ${number}`);
  return value;
}

/** The n-th address of a range that only tests use, in either family. */
export function address(family: IpFamily, n: number): IpAddress {
  return ip(family === 4 ? `10.96.${n >> 8}.${n & 255}` : `fd00:96::${n.toString(16)}`);
}

/** The n-th address of the range for endpoints. */
export function endpoint(family: IpFamily, n: number): IpAddress {
  return ip(family === 4 ? `10.244.${n >> 8}.${n & 255}` : `fd00:244::${n.toString(16)}`);
}

export function virtualServer(
  at: IpAddress,
  portNumber: number,
  protocol: Protocol = 'TCP',
  change: Partial<VirtualServer> = {},
): VirtualServer {
  const prefix = typeof at === 'number' ? 32 : 128;
  return { address: at, port: port(portNumber), protocol, scheduler: 'rr', flags: 0, timeout: 0, prefix, ...change };
}

export function realServer(at: IpAddress, portNumber: number, weight = 1): RealServer {
  return { address: at, port: port(portNumber), weight };
}

export function set(family: IpFamily, role: string, type: IpSetType, maxEntries = 65_536): IpSet {
  return { name: `${family === 4 ? 'KUBE-' : 'KUBE-6-'}${role}`, type, family, maxEntries };
}

/** An entry of each type, the n-th. */
export function entry(family: IpFamily, type: IpSetType, n: number): IpSetEntry {
  const at = address(family, n);
  const to = { address: at, protocol: 'TCP', port: port(8000 + n) } as const;
  switch (type) {
    case 'hash:ip':
      return { type, address: at };
    case 'hash:ip,port':
      return { type, ...to };
    case 'hash:ip,port,ip':
      return { type, ...to, address2: endpoint(family, n) };
    case 'hash:ip,port,net':
      return { type, ...to, network: { address: endpoint(family, 256), prefix: family === 4 ? 24 : 120 } };
    case 'bitmap:port':
      return { type, port: port(30_000 + n) };
  }
}
