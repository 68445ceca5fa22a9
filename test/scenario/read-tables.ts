import { formatCidr } from '../../src/base/cidr.ts';
import { formatIp, isLinkLocal6 } from '../../src/base/ip.ts';
import type { KernelReader } from '../../src/kernel/kernel.ts';
import { hostPrefix } from '../../src/state/bound-address.ts';
import { formatIpSetEntry } from '../../src/state/ip-set.ts';
import { formatRealServer } from '../../src/state/real-server.ts';
import {
  VS_ONE_PACKET,
  VS_PERSISTENT,
  VS_SCHED_FALLBACK,
  VS_SCHED_PORT,
  formatVirtualServer,
  virtualServerKey,
} from '../../src/state/virtual-server.ts';
import type { KernelTables } from './kernel-tables.ts';
import { setLine, virtualServerLine } from './tables.ts';

/** What a kernel holds, in the words of the scenarios. */
export async function readTables(kernel: KernelReader): Promise<KernelTables> {
  // In iptables mode, this reads the tables anew.
  const sets = await kernel.getSets();
  const addresses = await kernel.getBoundAddresses();
  const routes = await kernel.getLocalRoutes();
  return {
    'virtual servers': await readVirtualServers(kernel),
    sets: sets.map(({ name, entries }) => setLine(name, entries.map(formatIpSetEntry))),
    addresses: addresses.filter(({ address }) => !isLinkLocal6(address)).map(({ address }) => formatIp(address)),
    'local routes': routes.map(({ cidr }) => formatCidr(cidr)),
  };
}

async function readVirtualServers(kernel: KernelReader): Promise<string[]> {
  const services = await kernel.getVirtualServers();
  const servers = await kernel.getRealServers(services);
  return services.map((service) => {
    const { address, flags, timeout, prefix } = service;
    const options = [
      ...((flags & VS_PERSISTENT) === 0 ? [] : [`persistent ${timeout}`]),
      ...(prefix === hostPrefix(address) ? [] : [`/${prefix}`]),
      ...((flags & VS_ONE_PACKET) === 0 ? [] : ['one-packet']),
      ...((flags & VS_SCHED_FALLBACK) === 0 ? [] : ['fallback']),
      ...((flags & VS_SCHED_PORT) === 0 ? [] : ['port']),
    ];
    const found = servers.get(virtualServerKey(service)) ?? [];
    const real = found.map((server) => {
      const { weight, upperThreshold = 0, lowerThreshold = 0 } = server;
      const limit = upperThreshold === 0 ? '' : `${upperThreshold}/${lowerThreshold}`;
      return { at: formatRealServer(server), weight, limit };
    });
    return virtualServerLine(formatVirtualServer(service), service.scheduler, options, real);
  });
}
