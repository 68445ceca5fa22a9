import type { Kernel } from '../kernel/kernel.ts';
import type { HaveVirtualServer } from '../diff/virtual-server-diff.ts';
import {
  type VirtualServer,
  type VirtualServerId,
  type VirtualServerKey,
  virtualServerKey,
} from '../state/virtual-server.ts';

/** Just these virtual servers, with their real servers; those that the kernel does not have are absent. */
export async function readVirtualServers(
  kernel: Kernel,
  ids: readonly VirtualServerId[],
): Promise<Map<VirtualServerKey, HaveVirtualServer>> {
  if (ids.length === 0) return new Map();
  return await readRealServers(kernel, [...(await kernel.findVirtualServers(ids)).values()]);
}

/** Virtual servers that the kernel is known to have, with their real servers. */
export async function readRealServers(
  kernel: Kernel,
  present: readonly VirtualServer[],
): Promise<Map<VirtualServerKey, HaveVirtualServer>> {
  if (present.length === 0) return new Map();
  const realServers = await kernel.getRealServers(present);
  return new Map(
    present.map((virtualServer) => {
      const key = virtualServerKey(virtualServer);
      return [key, { virtualServer, realServers: realServers.get(key) ?? [] }];
    }),
  );
}
