import type { Kernel, ObservedIpSet } from '../kernel/kernel.ts';
import type { HaveVirtualServer } from '../diff/virtual-server-diff.ts';
import type { IpAddress } from '../net/ip.ts';
import type { NodePlan } from '../plan/node-plan.ts';
import {
  type VirtualServer,
  type VirtualServerId,
  type VirtualServerKey,
  virtualServerKey,
} from '../state/virtual-server.ts';
import type { Breather } from '../net/breather.ts';

/** All that a full check reads, in one pass over the kernel. */
export interface ObservedState {
  readonly virtualServers: ReadonlyMap<VirtualServerKey, HaveVirtualServer>;
  readonly sets: ReadonlyMap<string, ObservedIpSet>;
  readonly addresses: readonly IpAddress[];
}

/** Real servers are read only of virtual servers that stay: the others take theirs with them. */
export async function readState(kernel: Kernel, plan: NodePlan, breather: Breather): Promise<ObservedState> {
  const sets = await kernel.getSets();
  const addresses = await kernel.getBoundAddresses();
  const virtualServers = await kernel.getVirtualServers();
  const wanted = virtualServers.filter((id) => plan.virtualServer(virtualServerKey(id)) !== undefined);
  const realServers = await kernel.getRealServers(wanted);
  const found = new Map<VirtualServerKey, HaveVirtualServer>();
  for (const virtualServer of virtualServers) {
    const key = virtualServerKey(virtualServer);
    found.set(key, { virtualServer, realServers: realServers.get(key) ?? [] });
    if (breather.due) await breather.breathe();
  }
  return { sets: new Map(sets.map((set) => [set.name, set])), addresses, virtualServers: found };
}

/** Just these virtual servers: what a change sync reads. */
export async function readVirtualServers(
  kernel: Kernel,
  ids: readonly VirtualServerId[],
): Promise<Map<VirtualServerKey, HaveVirtualServer>> {
  if (ids.length === 0) return new Map();
  const found = await kernel.findVirtualServers(ids);
  const present: VirtualServer[] = [...found.values()];
  const realServers = await kernel.getRealServers(present);
  return new Map(
    present.map((virtualServer) => {
      const key = virtualServerKey(virtualServer);
      return [key, { virtualServer, realServers: realServers.get(key) ?? [] }];
    }),
  );
}
