import type { Op } from '../state/op.ts';
import { type RealServer, type RealServerKey, realServerKey } from '../state/real-server.ts';
import { type VirtualServerId, sameVirtualServer } from '../state/virtual-server.ts';
import type { WantedVirtualServer } from './virtual-server-diff.ts';

/**
 * What brings a virtual server from one wanted state to the next where real servers only came or changed their weight. undefined where
 * what is to be done depends on what the kernel holds: on the connections of a real server that goes.
 */
export function realServerAdditions(
  id: VirtualServerId,
  before: WantedVirtualServer,
  want: WantedVirtualServer,
): Op[] | undefined {
  if (!sameVirtualServer(before.virtualServer, want.virtualServer)) return undefined;
  const known = new Map<RealServerKey, RealServer>();
  for (const server of before.realServers) known.set(realServerKey(server), server);
  const ops: Op[] = [];
  for (const realServer of want.realServers) {
    const key = realServerKey(realServer);
    const was = known.get(key);
    known.delete(key);
    if (was === undefined) ops.push({ kind: 'add-real-server', id, realServer });
    else if (was.weight !== realServer.weight) ops.push({ kind: 'edit-real-server', id, realServer });
  }
  return known.size > 0 ? undefined : ops;
}
