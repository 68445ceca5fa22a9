import { type IpAddress, type IpFamily, familyOf } from '../../base/ip.ts';
import { formatVirtualServer, type VirtualServerId } from '../../state/virtual-server.ts';
import type { Destination, EngineUpdate, ForwardedPort, Listener } from '../../userspace/engine-update.ts';
import { type ForwardedServer, isServed } from './forwarded-server.ts';

/** What the engine has of virtual servers with endpoints. */
type Forwarding = Required<Pick<EngineUpdate, 'ports' | 'destinations' | 'listeners'>>;

/** @param addressOf where the engine listens */
export function forwardingOf(
  servers: Iterable<ForwardedServer>,
  addressOf: (family: IpFamily) => IpAddress,
): Forwarding {
  const ports: ForwardedPort[] = [];
  const destinations: Destination[] = [];
  const listeners = new Map<string, Listener>();
  for (const server of servers) {
    const { virtualServer, listensOn } = server;
    const address = addressOf(familyOf(virtualServer.address));
    if (listensOn === undefined || !isServed(server)) continue;
    const { protocol, port } = virtualServer;
    const key = engineKey(virtualServer);
    ports.push(portOf(server, key));
    const at = { address, port: listensOn, protocol, reusePort: true };
    destinations.push({ address: virtualServer.address, port, protocol, key });
    // Sockets of UDP do not say to which address a datagram was sent.
    if (protocol === 'UDP') listeners.set(key, { ...at, key });
    else listeners.set(formatVirtualServer(at), at);
  }
  return { ports, destinations, listeners: [...listeners.values()] };
}

/** How the engine knows a virtual server. */
export function engineKey(id: VirtualServerId): string {
  return formatVirtualServer(id);
}

function portOf({ virtualServer, realServers }: ForwardedServer, key: string): ForwardedPort {
  const { protocol, scheduler, timeout, servicePort, drainTimeout } = virtualServer;
  return {
    key,
    // "namespace/name:port" without the port.
    service: servicePort?.split(':', 1)[0] ?? key,
    protocol,
    endpoints: [...realServers.values()],
    choice: scheduler,
    affinitySeconds: timeout,
    ...(drainTimeout === undefined ? {} : { drainMs: drainTimeout }),
  };
}
