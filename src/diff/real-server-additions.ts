import type { Op } from '../state/op.ts';
import { compareRealServer } from '../state/real-server.ts';
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
  const ops: Op[] = [];
  // Both lists are sorted: whoever stands before the next one wanted is wanted no more.
  let at = 0;
  for (const realServer of want.realServers) {
    const was = before.realServers[at];
    const order = was === undefined ? 1 : compareRealServer(was, realServer);
    if (order < 0) return undefined;
    if (order > 0) ops.push({ kind: 'add-real-server', id, realServer });
    else {
      at += 1;
      if (was?.weight !== realServer.weight) ops.push({ kind: 'edit-real-server', id, realServer });
    }
  }
  return at < before.realServers.length ? undefined : ops;
}
