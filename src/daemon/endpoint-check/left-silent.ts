import type { KernelReader } from '../../kernel/kernel.ts';
import { FORWARDING, type RealServerKey, forwardingOf, realServerKey } from '../../state/real-server.ts';
import { type VirtualServerKey } from '../../state/virtual-server.ts';

/** The real servers to which an earlier run let no new connections go, by virtual server. */
export type LeftSilent = ReadonlyMap<VirtualServerKey, ReadonlySet<RealServerKey>>;

/** Reads the real servers of TCP with weight 0. Those that are no longer wanted, which drain, are among them. */
export async function readLeftSilent(
  kernel: Pick<KernelReader, 'getVirtualServers' | 'getRealServers'>,
): Promise<LeftSilent> {
  const ids = (await kernel.getVirtualServers()).filter(({ protocol }) => protocol === 'TCP');
  const left = new Map<VirtualServerKey, ReadonlySet<RealServerKey>>();
  for (const [key, servers] of await kernel.getRealServers(ids)) {
    const silent = servers.filter((server) => server.weight === 0 && forwardingOf(server) === FORWARDING.nat);
    if (silent.length > 0) left.set(key, new Set(silent.map(realServerKey)));
  }
  return left;
}
