import type { Yielder } from '../../base/yielder.ts';
import type { AddingOrder } from '../../diff/adding-order.ts';
import type { DrainLedger } from '../../diff/drain.ts';
import type { KnownServers } from '../../diff/known-servers.ts';
import {
  type FoundVirtualServer,
  type WantedVirtualServer,
  diffVirtualServer,
} from '../../diff/virtual-server-diff.ts';
import type { KernelReader } from '../../kernel/kernel.ts';
import type { ServerOp } from '../../state/op.ts';
import { type VirtualServer, type VirtualServerKey, virtualServerKey } from '../../state/virtual-server.ts';
import type { Clock } from '../timing/clock.ts';
import { readRealServers, readVirtualServers } from './read-virtual-servers.ts';

export interface ServerComparisonParts {
  readonly kernel: KernelReader;
  readonly order: AddingOrder;
  readonly ledger: Pick<DrainLedger, 'decide' | 'keepOnly'>;
  readonly known: Pick<KnownServers, 'note'>;
  readonly clock: Pick<Clock, 'now'>;
}

/** The virtual servers that the kernel had when all were listed. */
export type ListedServers = ReadonlyMap<VirtualServerKey, VirtualServer>;

/** Reads these virtual servers, and returns the operations that bring them to the plan. */
export async function compareServers(
  parts: ServerComparisonParts,
  wanted: readonly WantedVirtualServer[],
  yielder: Yielder,
): Promise<readonly ServerOp[]> {
  const ids = wanted.map(({ virtualServer }) => virtualServer);
  return (await diffServers(parts, wanted, await readVirtualServers(parts.kernel, ids), yielder)).ops;
}

/**
 * Like compareServers, but reads only the real servers.
 *
 * @param mayHaveChanged whether the list may be older than the plan: those that differ are then read again
 */
export async function compareListed(
  parts: ServerComparisonParts,
  wanted: readonly WantedVirtualServer[],
  listed: ListedServers,
  mayHaveChanged: boolean,
  yielder: Yielder,
): Promise<readonly ServerOp[]> {
  const present = wanted.flatMap(({ virtualServer }) => listed.get(virtualServerKey(virtualServer)) ?? []);
  const found = await readRealServers(parts.kernel, present);
  const { ops, differing } = await diffServers(parts, wanted, found, yielder);
  return mayHaveChanged && differing.length > 0 ? await compareServers(parts, differing, yielder) : ops;
}

async function diffServers(
  { order, ledger, known, clock }: ServerComparisonParts,
  wanted: readonly WantedVirtualServer[],
  found: ReadonlyMap<VirtualServerKey, FoundVirtualServer>,
  yielder: Yielder,
): Promise<{ readonly ops: readonly ServerOp[]; readonly differing: readonly WantedVirtualServer[] }> {
  known.note(found);
  const context = { order, ledger, now: clock.now() };
  const ops: ServerOp[] = [];
  const differing: WantedVirtualServer[] = [];
  for (const each of wanted) {
    const { virtualServer: id } = each;
    const before = ops.length;
    diffVirtualServer(id, each, found.get(virtualServerKey(id)), context, ops);
    if (ops.length > before) differing.push(each);
    if (yielder.due) await yielder.yieldIfDue();
  }
  return { ops, differing };
}
