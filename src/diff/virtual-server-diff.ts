import type { Op } from '../state/op.ts';
import { type ObservedRealServer, type RealServer, type RealServerKey, realServerKey } from '../state/real-server.ts';
import { type VirtualServer, type VirtualServerId, sameVirtualServer } from '../state/virtual-server.ts';
import type { DrainLedger } from './drain.ts';

/** A virtual server as wanted. */
export interface WantedVirtualServer {
  readonly virtualServer: VirtualServer;
  /** Sorted, no two alike. */
  readonly realServers: readonly RealServer[];
}

export interface HaveVirtualServer {
  readonly virtualServer: VirtualServer;
  readonly realServers: readonly ObservedRealServer[];
}

/**
 * What brings one virtual server from `have` to `want`, put behind `ops`; either may be missing. Answers how many of its real servers
 * still drain.
 */
export function diffVirtualServer(
  id: VirtualServerId,
  want: WantedVirtualServer | undefined,
  have: HaveVirtualServer | undefined,
  ledger: DrainLedger,
  now: number,
  ops: Op[],
): number {
  if (want === undefined) {
    for (const server of have?.realServers ?? []) ledger.forget(id, server);
    if (have !== undefined) ops.push({ kind: 'delete-virtual-server', id });
    return 0;
  }
  const { virtualServer } = want;
  if (have === undefined) ops.push({ kind: 'add-virtual-server', virtualServer });
  else if (!sameVirtualServer(virtualServer, have.virtualServer))
    ops.push({ kind: 'edit-virtual-server', virtualServer });
  if (have !== undefined) return diffRealServers(id, want.realServers, have.realServers, ledger, now, ops);
  for (const realServer of want.realServers) ops.push({ kind: 'add-real-server', id, realServer });
  return 0;
}

/** Nothing is to be done, and nothing drains: a look without consequences. */
export function isInForce(want: WantedVirtualServer, have: HaveVirtualServer | undefined): boolean {
  if (have === undefined || !sameVirtualServer(want.virtualServer, have.virtualServer)) return false;
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

/** Ours masquerade, all of them. */
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
    // Wanted again while it drained: the weight comes back, its connections live on.
    ledger.forget(id, realServer);
    if (!isAsWanted(current, realServer)) ops.push({ kind: 'edit-real-server', id, realServer });
  }
  let draining = 0;
  for (const server of observed.values()) {
    const realServer = { address: server.address, port: server.port, weight: 0 };
    const fate = ledger.judge(id, server, now);
    if (fate === 'delete') ops.push({ kind: 'delete-real-server', id, realServer });
    else draining += 1;
    if (fate === 'drain') ops.push({ kind: 'edit-real-server', id, realServer });
  }
  return draining;
}
