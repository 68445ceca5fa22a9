import type { ExpectedServers, KernelReader } from '../../kernel/kernel.ts';
import type { FoundVirtualServer } from '../../diff/virtual-server-diff.ts';
import type { ObservedRealServer } from '../../state/real-server.ts';
import {
  type ListUser,
  type VirtualServer,
  type VirtualServerId,
  type VirtualServerKey,
  virtualServerKey,
} from '../../state/virtual-server.ts';

/** Returns those of the virtual servers that exist in the kernel, with their real servers. `expected`: see KernelReader. */
export async function readVirtualServers(
  kernel: KernelReader,
  ids: Parameters<KernelReader['findVirtualServers']>[0],
  expected?: ExpectedServers,
): Promise<Map<VirtualServerKey, FoundVirtualServer>> {
  if (ids.length === 0) return new Map();
  return await readRealServers(kernel, [...(await kernel.findVirtualServers(ids)).values()], expected);
}

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

/** Returns the real servers of each virtual server, those of the list that it shares, too. */
export async function findServing(
  kernel: Pick<KernelReader, 'getRealServers'>,
  ids: readonly (VirtualServerId & ListUser)[],
): Promise<ReadonlyMap<VirtualServerKey, readonly ObservedRealServer[]>> {
  const lenders = new Map<VirtualServerKey, VirtualServerId>();
  for (const id of ids) lenders.set(virtualServerKey(id.list ?? id), id.list ?? id);
  const found = await kernel.getRealServers([...lenders.values()]);
  return new Map(
    ids.flatMap((id) => {
      const servers = found.get(virtualServerKey(id.list ?? id));
      return servers === undefined ? [] : [[virtualServerKey(id), servers] as const];
    }),
  );
}
