import type { Kernel } from '../../src/kernel/kernel.ts';
import { parseIp } from '../../src/base/ip.ts';
import { toPort } from '../../src/base/port.ts';
import { formatRealServer } from '../../src/state/real-server.ts';
import { type VirtualServerId, virtualServerKey } from '../../src/state/virtual-server.ts';
import { clusterIp, growthIp } from './large-cluster.ts';

export function tcpServer(ip: string, portNumber: number): VirtualServerId {
  const address = parseIp(ip);
  const port = toPort(portNumber);
  if (address === undefined || port === undefined) throw new Error(`no address or port: ${ip} ${portNumber}`);
  return { address, port, protocol: 'TCP' };
}

/** The real servers that the kernel shows, as "address:port". */
export async function realServersOf(kernel: Kernel, id: VirtualServerId): Promise<readonly string[]> {
  const servers = (await kernel.getRealServers([id])).get(virtualServerKey(id)) ?? [];
  return servers.map((server) => formatRealServer(server));
}

/** A plain service has grown by one. */
export async function holdsRealServer(kernel: Kernel, service: number): Promise<boolean> {
  return (await realServersOf(kernel, tcpServer(clusterIp(service, 4), 80))).includes(`${growthIp(service, 4)}:8080`);
}
