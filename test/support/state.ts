import { type IpAddress, isIp4, parseIp } from '../../src/base/ip.ts';
import { type Port, toPort } from '../../src/base/port.ts';
import type { Protocol } from '../../src/base/protocol.ts';
import type { ObservedRealServer, RealServer } from '../../src/state/real-server.ts';
import type { VirtualServer, VirtualServerId } from '../../src/state/virtual-server.ts';

/** Builders of kernel objects from text, for tests. */
export function address(text: string): IpAddress {
  const parsed = parseIp(text);
  if (parsed === undefined) throw new Error(`not an IP address: ${text}`);
  return parsed;
}

export function portOf(number: number): Port {
  const port = toPort(number);
  if (port === undefined) throw new Error(`not a port: ${number}`);
  return port;
}

export function vsId(text: string, port: number, protocol: Protocol = 'TCP'): VirtualServerId {
  return { address: address(text), port: portOf(port), protocol };
}

export function virtualServer(text: string, port: number, protocol: Protocol = 'TCP'): VirtualServer {
  const id = vsId(text, port, protocol);
  return { ...id, scheduler: 'lc', flags: 0, timeout: 0, prefix: isIp4(id.address) ? 32 : 128 };
}

export function real(text: string, weight: number, port = 8080): RealServer {
  return { address: address(text), port: portOf(port), weight };
}

export function observed(text: string, weight: number, change: Partial<ObservedRealServer> = {}): ObservedRealServer {
  return {
    ...real(text, weight),
    forwarding: 0,
    activeConnections: 0,
    inactiveConnections: 0,
    persistentConnections: 0,
    ...change,
  };
}
