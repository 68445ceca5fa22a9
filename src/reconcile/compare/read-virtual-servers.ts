import type { ExpectedServers, KernelReader } from '../../kernel/kernel.ts';
import type { FoundVirtualServer } from '../../diff/virtual-server-diff.ts';
import {
  type VirtualServer,
  type VirtualServerId,
  type VirtualServerKey,
  virtualServerKey,
} from '../../state/virtual-server.ts';

/** Returns those of the virtual servers that exist in the kernel, with their real servers. `expected`: see KernelReader. */
export async function readVirtualServers(
  kernel: KernelReader,
  ids: readonly VirtualServerId[],
  expected?: ExpectedServers,
): Promise<Map<VirtualServerKey, FoundVirtualServer>> {
  if (ids.length === 0) return new Map();
  return await readRealServers(kernel, [...(await kernel.findVirtualServers(ids)).values()], expected);
}

/** Reads the real servers of virtual servers that exist in the kernel. */
export async function readRealServers(
  kernel: KernelReader,
  present: readonly VirtualServer[],
  expected?: ExpectedServers,
): Promise<Map<VirtualServerKey, FoundVirtualServer>> {
  if (present.length === 0) return new Map();
  const realServers = await kernel.getRealServers(present, expected);
  return new Map(
    present.map((virtualServer) => {
      const key = virtualServerKey(virtualServer);
      return [key, { virtualServer, realServers: realServers.get(key) ?? [] }];
    }),
  );
}
