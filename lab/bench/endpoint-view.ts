import type { Kernel } from '../../src/kernel/kernel.ts';
import { virtualServerKey } from '../../src/state/virtual-server.ts';
import { clusterIp } from './large-cluster.ts';
import { holdsRealServer, tcpServer } from './real-servers.ts';

/** Which endpoints of plain services a proxy has written to the kernel. */
export interface EndpointView {
  /** Whether each of the services has so many endpoints. */
  haveAll(services: readonly number[], endpoints: number): Promise<boolean>;
  hasGrown(service: number): Promise<boolean>;
}

/** The virtual servers of IPVS, whoever wrote them, or of our tables. */
export function virtualServerView(kernel: Kernel): EndpointView {
  return {
    haveAll: async (services, endpoints) => {
      const ids = services.map((service) => tcpServer(clusterIp(service, 4), 80));
      const found = await kernel.getRealServers(ids);
      return ids.every((id) => found.get(virtualServerKey(id))?.length === endpoints);
    },
    hasGrown: (service) => holdsRealServer(kernel, service),
  };
}
