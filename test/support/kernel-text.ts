import type { Kernel } from '../../src/kernel/kernel.ts';
import { findServing } from '../../src/reconcile/compare/read-virtual-servers.ts';
import { formatCidr } from '../../src/base/cidr.ts';
import { formatIp } from '../../src/base/ip.ts';
import { formatIpSetEntry } from '../../src/state/ip-set.ts';
import { formatRealServer } from '../../src/state/real-server.ts';
import { formatVirtualServer, virtualServerKey } from '../../src/state/virtual-server.ts';
import { boundAddresses } from './bound-addresses.ts';

/** Returns all our objects in a kernel as sorted lines, to compare two kernels. */
export async function kernelText(kernel: Kernel): Promise<string> {
  const lines: string[] = [];
  const services = await kernel.getVirtualServers();
  const servers = await findServing(kernel, services);
  for (const service of services) {
    const { scheduler, flags, timeout, list, traits: { kind, keepsSource, admitted } = {} } = service;
    lines.push(`${formatVirtualServer(service)} ${scheduler} ${flags} ${timeout} ${kind} ${keepsSource}`);
    if (list !== undefined) lines.push(`${formatVirtualServer(service)} has the list of ${formatVirtualServer(list)}`);
    for (const range of admitted?.ranges ?? [])
      lines.push(`${formatVirtualServer(service)} admits ${formatCidr(range)}`);
    if (admitted?.itself === true) lines.push(`${formatVirtualServer(service)} admits itself`);
    for (const server of servers.get(virtualServerKey(service)) ?? []) {
      lines.push(`${formatVirtualServer(service)} -> ${formatRealServer(server)} ${server.weight}`);
    }
  }
  for (const set of await kernel.getSets()) {
    for (const entry of set.entries) lines.push(`${set.name} ${formatIpSetEntry(entry)}`);
  }
  for (const address of await boundAddresses(kernel)) lines.push(`address ${formatIp(address)}`);
  for (const { cidr } of await kernel.getLocalRoutes()) lines.push(`route ${formatCidr(cidr)}`);
  return lines.sort().join('\n');
}
