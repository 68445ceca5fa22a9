import {
  forwardingFields,
  type FoundRealServer,
  type RealServer,
  type RealServerKey,
  hasSameServerSettings,
  keepTunnel,
  realServerKey,
} from '../state/real-server.ts';
import type { ServerOp } from '../state/op.ts';
import { type VirtualServer, type VirtualServerId, borrows, hasSameSettings } from '../state/virtual-server.ts';
import type { AddingOrder } from './adding-order.ts';
import type { DrainLedger } from './drain.ts';

export interface WantedVirtualServer {
  readonly virtualServer: VirtualServer;
  /** Sorted, without duplicates; of one that has the list of another, those in the list. */
  readonly realServers: readonly RealServer[];
  /** How long a removed real server may drain, in ms; 0: no limit; absent: that of the ledger. */
  readonly drainTimeout?: number;
}

/** A virtual server in the kernel: read, or known from the last plan. */
export interface FoundVirtualServer {
  readonly virtualServer: VirtualServer;
  /** Empty if it uses the list of another virtual server. If they are as wanted, this may be the wanted list itself. */
  readonly realServers: readonly FoundRealServer[];
}

/** What the operations depend on besides the wanted and the found state. */
export interface DiffContext {
  readonly order: AddingOrder;
  readonly ledger: Pick<DrainLedger, 'decide' | 'keepOnly'>;
  /** In ms of the ledger's clock. */
  readonly now: number;
}

/** Appends the operations that change one virtual server from `found` to `wanted`. */
export function diffVirtualServer(
  id: VirtualServerId,
  wanted: WantedVirtualServer | undefined,
  found: FoundVirtualServer | undefined,
  context: DiffContext,
  ops: { push(op: ServerOp): unknown },
): void {
  if (wanted === undefined) {
    context.ledger.keepOnly(id);
    if (found !== undefined) ops.push({ kind: 'delete-virtual-server', id });
    return;
  }
  const { virtualServer } = wanted;
  if (found === undefined) ops.push({ kind: 'add-virtual-server', virtualServer });
  else if (!hasSameSettings(virtualServer, found.virtualServer))
    ops.push({ kind: 'edit-virtual-server', virtualServer });
  if (borrows(id, virtualServer)) context.ledger.keepOnly(id);
  else diffRealServers(id, wanted, found, context, ops);
}

function diffRealServers(
  id: VirtualServerId,
  wanted: WantedVirtualServer,
  found: FoundVirtualServer | undefined,
  { order, ledger, now }: DiffContext,
  ops: { push(op: ServerOp): unknown },
): void {
  const differing = withoutEqualEnds(wanted.realServers, found?.realServers ?? []);
  const current = byKey(differing.found);
  const missing: RealServer[] = [];
  for (const realServer of differing.wanted) {
    const known = current.get(realServerKey(realServer));
    if (known === undefined) missing.push(realServer);
    // A draining real server that is wanted again gets its weight back, and its connections continue.
    else if (!hasSameServerSettings(known, realServer))
      ops.push({ kind: 'edit-real-server', id, realServer: keepTunnel(realServer, known) });
  }
  for (const realServer of order(wanted.virtualServer, missing)) ops.push({ kind: 'add-real-server', id, realServer });
  // Usually there is no surplus, which comparing the counts shows.
  if (current.size === differing.wanted.length - missing.length) {
    ledger.keepOnly(id);
    return;
  }
  for (const realServer of differing.wanted) current.delete(realServerKey(realServer));
  removeSurplus(id, wanted, current, { ledger, now }, ops);
  ledger.keepOnly(id, current);
}

/** Appends the operations that drain or delete real servers. Removes the deleted ones from `surplus`. */
function removeSurplus(
  id: VirtualServerId,
  { drainTimeout }: WantedVirtualServer,
  surplus: Map<RealServerKey, FoundRealServer>,
  { ledger, now }: Pick<DiffContext, 'ledger' | 'now'>,
  ops: { push(op: ServerOp): unknown },
): void {
  for (const [key, server] of surplus) {
    const { address, port } = server;
    const realServer = { address, port, weight: 0, ...forwardingFields(server) };
    const decision = ledger.decide(id, server, now, drainTimeout);
    if (decision === 'drain') ops.push({ kind: 'edit-real-server', id, realServer });
    if (decision !== 'delete') continue;
    ops.push({ kind: 'delete-real-server', id, realServer });
    surplus.delete(key);
  }
}

/**
 * Leaves out what both lists have at their beginning and at their end: a change of one endpoint among 100,000 then compares
 * few by key. What was read may have any order.
 */
function withoutEqualEnds(
  wanted: readonly RealServer[],
  found: readonly FoundRealServer[],
): { readonly wanted: readonly RealServer[]; readonly found: readonly FoundRealServer[] } {
  const shorter = Math.min(wanted.length, found.length);
  let first = 0;
  while (first < shorter && isEqual(wanted[first], found[first])) first += 1;
  let last = 0;
  while (last < shorter - first && isEqual(wanted.at(-1 - last), found.at(-1 - last))) last += 1;
  return { wanted: wanted.slice(first, wanted.length - last), found: found.slice(first, found.length - last) };
}

function isEqual(a: RealServer | undefined, b: FoundRealServer | undefined): boolean {
  return (
    a !== undefined && b !== undefined && a.address === b.address && a.port === b.port && hasSameServerSettings(b, a)
  );
}

function byKey(servers: readonly FoundRealServer[]): Map<RealServerKey, FoundRealServer> {
  const found = new Map<RealServerKey, FoundRealServer>();
  for (const server of servers) found.set(realServerKey(server), server);
  return found;
}
