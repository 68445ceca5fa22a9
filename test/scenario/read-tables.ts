import { formatCidr } from '../../src/base/cidr.ts';
import { IP_FAMILIES, formatIp, isLinkLocal6 } from '../../src/base/ip.ts';
import type { KernelReader, ObservedIpSet } from '../../src/kernel/kernel.ts';
import { entriesOfAddress } from '../../src/plan/set-entries.ts';
import { SET_ROLES, setName } from '../../src/state/set-roles.ts';
import { hostPrefix } from '../../src/state/bound-address.ts';
import { type IpSetEntry, formatIpSetEntry } from '../../src/state/ip-set.ts';
import { formatRealServer } from '../../src/state/real-server.ts';
import {
  VS_ONE_PACKET,
  VS_PERSISTENT,
  VS_SCHED_FALLBACK,
  VS_SCHED_PORT,
  type VirtualServer,
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
    sets: setLines(await kernel.getVirtualServers(), sets),
    addresses: addresses.filter(({ address }) => !isLinkLocal6(address)).map(({ address }) => formatIp(address)),
    'local routes': routes.map(({ cidr }) => formatCidr(cidr)),
  };
}

/** Where virtual servers have traits, as the entries that ipvs mode would have instead. */
function setLines(servers: readonly VirtualServer[], sets: readonly ObservedIpSet[]): string[] {
  const texts = new Map<string, Set<string>>();
  const add = (name: string, entries: readonly IpSetEntry[]): void => {
    const known = texts.get(name) ?? new Set();
    texts.set(name, known);
    for (const entry of entries) known.add(formatIpSetEntry(entry));
  };
  // A set of which the last entry is gone is compared, too.
  for (const role of SET_ROLES) for (const family of IP_FAMILIES) add(setName(role, family), []);
  for (const { name, entries } of sets) add(name, entries);
  for (const server of servers) {
    if (server.traits === undefined) continue;
    for (const { role, family, entry } of entriesOfAddress(server, server.traits)) add(setName(role, family), [entry]);
  }
  return Array.from(texts, ([name, entries]) => setLine(name, [...entries]));
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
    const found = servers.get(virtualServerKey(service.list ?? service)) ?? [];
    const real = found.map((server) => {
      const { weight, upperThreshold = 0, lowerThreshold = 0 } = server;
      const limit = upperThreshold === 0 ? '' : `${upperThreshold}/${lowerThreshold}`;
      return { at: formatRealServer(server), weight, limit };
    });
    return virtualServerLine(formatVirtualServer(service), service.scheduler, options, real);
  });
}
