import type { IpAddress } from '../../base/ip.ts';
import type { Port } from '../../base/port.ts';
import type { NodePlan, PlanChanges } from '../../plan/node/node-plan.ts';
import type { IpSetEntry } from '../../state/ip-set.ts';
import type { Op } from '../../state/op.ts';
import { isPlanned } from '../compare/set-comparison.ts';
import type { RetryQueue } from './retry-queue.ts';

/**
 * Returns the set entries of the changed virtual servers and their endpoints that the kernel has refused and that still
 * wait for a retry: a change must not serve a virtual server before them.
 */
export function failedEntries(
  plan: Pick<NodePlan, 'entries'>,
  retries: Pick<RetryQueue, 'failing'>,
  changes: PlanChanges,
): Op[] {
  const failing = retries.failing().flatMap(({ failure: { op } }) => (op.kind === 'add-entry' ? [op] : []));
  if (failing.length === 0) return [];
  const addresses = new Set<IpAddress>();
  const ports = new Set<Port>();
  for (const { id, wanted } of changes.virtualServers) {
    addresses.add(id.address);
    ports.add(id.port);
    for (const { address } of wanted?.realServers ?? []) addresses.add(address);
  }
  const isOfThese = (entry: IpSetEntry): boolean =>
    entry.type === 'bitmap:port' ? ports.has(entry.port) : addresses.has(entry.address);
  return failing.filter((op) => isOfThese(op.entry) && isPlanned(plan, op));
}
