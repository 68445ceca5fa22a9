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
  const found = await readVirtualServers(parts.kernel, ids);
  parts.known.note(found);
  return (await diffServers(parts, wanted, found, yielder)).ops;
}

/**
 * Like compareServers, but reads only the real servers.
 *
 * @param mayHaveChanged whether the list may be older than the plan: those that differ are then read again. In a first sync
 *   it is not, and all are read: some may have tunnels that no plan knows.
 */
export async function compareListed(
  parts: ServerComparisonParts,
  wanted: readonly WantedVirtualServer[],
  listed: ListedServers,
  mayHaveChanged: boolean,
  yielder: Yielder,
): Promise<readonly ServerOp[]> {
  const found = new Map(mayHaveChanged ? await findConfirmed(parts.kernel, wanted, listed) : []);
  const present = wanted.flatMap(({ virtualServer }) => {
    const key = virtualServerKey(virtualServer);
    return found.has(key) ? [] : (listed.get(key) ?? []);
  });
  const read = await readRealServers(parts.kernel, present);
  parts.known.note(read);
  for (const [key, each] of read) found.set(key, each);
  const { ops, differing } = await diffServers(parts, wanted, found, yielder);
  return mayHaveChanged && differing.length > 0 ? await compareServers(parts, differing, yielder) : ops;
}

/** Returns those whose real servers are as wanted, as far as the kernel can tell without a dump of them. */
async function findConfirmed(
  kernel: KernelReader,
  wanted: readonly WantedVirtualServer[],
  listed: ListedServers,
): Promise<Map<VirtualServerKey, FoundVirtualServer>> {
  const lists = wanted.flatMap(({ virtualServer: id, realServers }) => {
    const virtualServer = listed.get(virtualServerKey(id));
    return virtualServer === undefined ? [] : [{ virtualServer, realServers }];
  });
  const confirmed = await kernel.confirmRealServers(lists);
  return new Map(
    lists.flatMap((list) => {
      const key = virtualServerKey(list.virtualServer);
      return confirmed.has(key) ? [[key, list] as const] : [];
    }),
  );
}

async function diffServers(
  { order, ledger, clock }: ServerComparisonParts,
  wanted: readonly WantedVirtualServer[],
  found: ReadonlyMap<VirtualServerKey, FoundVirtualServer>,
  yielder: Yielder,
): Promise<{ readonly ops: readonly ServerOp[]; readonly differing: readonly WantedVirtualServer[] }> {
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
