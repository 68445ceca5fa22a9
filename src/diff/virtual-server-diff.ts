import {
  forwardingFields,
  type FoundRealServer,
  type RealServer,
  type RealServerKey,
  hasSameServerSettings,
  keepTunnel,
  realServerKey,
} from '../state/real-server.ts';
import type { Transaction } from '../state/transaction.ts';
import { type VirtualServer, type VirtualServerId, hasSameSettings } from '../state/virtual-server.ts';
import type { AddingOrder } from './adding-order.ts';
import type { DrainLedger } from './drain.ts';

/** A wanted virtual server with its real servers. */
export interface WantedVirtualServer {
  readonly virtualServer: VirtualServer;
  /** Sorted, without duplicates. */
  readonly realServers: readonly RealServer[];
  /** How long a removed real server may drain, in ms; 0: no limit; absent: that of the ledger. */
  readonly drainTimeout?: number;
}

/** A virtual server as the kernel has it, read or known. */
export interface FoundVirtualServer {
  readonly virtualServer: VirtualServer;
  readonly realServers: readonly FoundRealServer[];
}

/** What the operations depend on besides the wanted and the found state. */
export interface DiffContext {
  readonly order: AddingOrder;
  readonly ledger: Pick<DrainLedger, 'decide' | 'keepOnly'>;
  /** In ms of the ledger's clock. */
  readonly now: number;
}

/** Adds the operations that change one virtual server from `found` to `wanted` to the transaction. */
export function diffVirtualServer(
  id: VirtualServerId,
  wanted: WantedVirtualServer | undefined,
  found: FoundVirtualServer | undefined,
  { order, ledger, now }: DiffContext,
  tx: Transaction,
): void {
  if (wanted === undefined) {
    ledger.keepOnly(id);
    if (found !== undefined) tx.push({ kind: 'delete-virtual-server', id });
    return;
  }
  const { virtualServer } = wanted;
  if (found === undefined) tx.push({ kind: 'add-virtual-server', virtualServer });
  else if (!hasSameSettings(virtualServer, found.virtualServer))
    tx.push({ kind: 'edit-virtual-server', virtualServer });

  const surplus = byKey(found?.realServers ?? []);
  const missing: RealServer[] = [];
  for (const realServer of wanted.realServers) {
    const key = realServerKey(realServer);
    const current = surplus.get(key);
    surplus.delete(key);
    if (current === undefined) missing.push(realServer);
    // A draining real server that is wanted again gets its weight back, and its connections continue.
    else if (!hasSameServerSettings(current, realServer))
      tx.push({ kind: 'edit-real-server', id, realServer: keepTunnel(realServer, current) });
  }
  for (const realServer of order.arrange(virtualServer, missing)) tx.push({ kind: 'add-real-server', id, realServer });
  for (const [key, server] of surplus) {
    const { address, port } = server;
    const realServer = { address, port, weight: 0, ...forwardingFields(server) };
    const decision = ledger.decide(id, server, now, wanted.drainTimeout);
    if (decision === 'drain') tx.push({ kind: 'edit-real-server', id, realServer });
    if (decision !== 'delete') continue;
    tx.push({ kind: 'delete-real-server', id, realServer });
    surplus.delete(key);
  }
  ledger.keepOnly(id, surplus);
}

/** Whether `found` equals `wanted`, including the real servers (so none of them is draining). */
export function isInForce(wanted: WantedVirtualServer, found: FoundVirtualServer | undefined): boolean {
  if (found === undefined || !hasSameSettings(wanted.virtualServer, found.virtualServer)) return false;
  if (wanted.realServers.length !== found.realServers.length) return false;
  const observed = byKey(found.realServers);
  return wanted.realServers.every((realServer) => {
    const current = observed.get(realServerKey(realServer));
    return current !== undefined && hasSameServerSettings(current, realServer);
  });
}

function byKey(servers: readonly FoundRealServer[]): Map<RealServerKey, FoundRealServer> {
  const found = new Map<RealServerKey, FoundRealServer>();
  for (const server of servers) found.set(realServerKey(server), server);
  return found;
}
