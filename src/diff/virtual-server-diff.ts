import type { Op } from '../state/op.ts';
import { type ObservedRealServer, type RealServer, type RealServerKey, realServerKey } from '../state/real-server.ts';
import { type VirtualServer, type VirtualServerId, hasSameSettings } from '../state/virtual-server.ts';
import type { DrainLedger } from './drain.ts';

/** A desired virtual server with its real servers. */
export interface WantedVirtualServer {
  readonly virtualServer: VirtualServer;
  /** Sorted, without duplicates. */
  readonly realServers: readonly RealServer[];
}

export interface HaveVirtualServer {
  readonly virtualServer: VirtualServer;
  readonly realServers: readonly ObservedRealServer[];
}

/** Appends operations that change one virtual server from `have` to `want`. Returns its number of draining servers. */
export function diffVirtualServer(
  id: VirtualServerId,
  want: WantedVirtualServer | undefined,
  have: HaveVirtualServer | undefined,
  ledger: DrainLedger,
  now: number,
  ops: Op[],
): number {
  if (want === undefined) {
    ledger.keepOnly(id, []);
    if (have !== undefined) ops.push({ kind: 'delete-virtual-server', id });
    return 0;
  }
  const { virtualServer } = want;
  if (have === undefined) ops.push({ kind: 'add-virtual-server', virtualServer });
  else if (!hasSameSettings(virtualServer, have.virtualServer))
    ops.push({ kind: 'edit-virtual-server', virtualServer });
  if (have !== undefined) return diffRealServers(id, want.realServers, have.realServers, ledger, now, ops);
  ledger.keepOnly(id, []);
  for (const realServer of want.realServers) ops.push({ kind: 'add-real-server', id, realServer });
  return 0;
}

/** Whether `have` equals `want`, including the real servers (so none of them is draining). */
export function isInForce(want: WantedVirtualServer, have: HaveVirtualServer | undefined): boolean {
  if (have === undefined || !hasSameSettings(want.virtualServer, have.virtualServer)) return false;
  if (want.realServers.length !== have.realServers.length) return false;
  const observed = byKey(have.realServers);
  return want.realServers.every((realServer) => {
    const current = observed.get(realServerKey(realServer));
    return current !== undefined && isAsWanted(current, realServer);
  });
}

function byKey(servers: readonly ObservedRealServer[]): Map<RealServerKey, ObservedRealServer> {
  const found = new Map<RealServerKey, ObservedRealServer>();
  for (const server of servers) found.set(realServerKey(server), server);
  return found;
}

/** All real servers of this program use masquerading (forwarding method 0). */
function isAsWanted({ weight, forwarding }: ObservedRealServer, want: RealServer): boolean {
  return weight === want.weight && forwarding === 0;
}

function diffRealServers(
  id: VirtualServerId,
  want: readonly RealServer[],
  have: readonly ObservedRealServer[],
  ledger: DrainLedger,
  now: number,
  ops: Op[],
): number {
  const observed = byKey(have);
  for (const realServer of want) {
    const key = realServerKey(realServer);
    const current = observed.get(key);
    observed.delete(key);
    if (current === undefined) {
      ops.push({ kind: 'add-real-server', id, realServer });
      continue;
    }
    // A draining real server that is desired again gets its weight back, and its connections continue.
    if (!isAsWanted(current, realServer)) ops.push({ kind: 'edit-real-server', id, realServer });
  }
  const draining: ObservedRealServer[] = [];
  for (const server of observed.values()) {
    const realServer = { address: server.address, port: server.port, weight: 0 };
    const decision = ledger.decide(id, server, now);
    if (decision === 'delete') ops.push({ kind: 'delete-real-server', id, realServer });
    else draining.push(server);
    if (decision === 'drain') ops.push({ kind: 'edit-real-server', id, realServer });
  }
  ledger.keepOnly(id, draining);
  return draining.length;
}
