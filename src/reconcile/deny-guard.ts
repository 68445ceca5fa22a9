import type { Kernel } from '../kernel/kernel.ts';
import { NOTHING } from '../net/exact.ts';
import { setName } from '../plan/set-names.ts';
import type { Op } from '../state/op.ts';
import type { OpFailure, Outcome } from '../state/outcome.ts';
import type { Transaction } from '../state/transaction.ts';
import { type VirtualServerKey, virtualServerKey } from '../state/virtual-server.ts';

const DENY_SETS: ReadonlySet<string> = new Set([setName('LOAD-BALANCER-FW', 4), setName('LOAD-BALANCER-FW', 6)]);

/**
 * Applies a transaction so that a virtual server with source ranges never runs without its deny: where the deny's set entry
 * could not be written, the virtual server is not added, and fails with it.
 */
export async function applyGuarded(kernel: Kernel, tx: Transaction): Promise<Outcome> {
  if (!deniesAndAdds(tx)) return kernel.apply(tx);

  const first = tx.ops.findIndex((op) => !isBeforeVirtualServers(op));
  const sets = await kernel.apply({ ops: tx.ops.slice(0, first) });
  const undenied = new Set<VirtualServerKey>();
  for (const { op } of sets.failures) {
    if (op.kind === 'add-entry' && op.entry.type === 'hash:ip,port' && DENY_SETS.has(op.set.name)) {
      undenied.add(virtualServerKey(op.entry));
    }
  }
  const rest = tx.ops.slice(first);
  const without = undenied.size === 0 ? NOTHING : rest.filter((op) => addsTo(op, undenied));
  const withheld = without.map((op): OpFailure => ({ op, errno: 0, code: 'WITHHELD', text: WITHHELD }));
  const others = await kernel.apply({ ops: without.length === 0 ? rest : rest.filter((op) => !addsTo(op, undenied)) });
  return {
    attempted: sets.attempted + others.attempted + withheld.length,
    failures: [...sets.failures, ...withheld, ...others.failures],
  };
}

const WITHHELD = 'its source ranges could not be put in force, so it is not served';

// Reads no further than it must: operations are in the order of their phases.
function deniesAndAdds({ ops }: Transaction): boolean {
  let denies = false;
  for (const op of ops) {
    if (op.kind === 'add-entry') denies ||= DENY_SETS.has(op.set.name);
    else if (!isBeforeVirtualServers(op)) return denies && op.kind === 'add-virtual-server';
  }
  return false;
}

function isBeforeVirtualServers(op: Op): boolean {
  return op.kind === 'create-set' || op.kind === 'grow-set' || op.kind === 'add-entry';
}

function addsTo(op: Op, keys: ReadonlySet<VirtualServerKey>): boolean {
  if (op.kind === 'add-virtual-server') return keys.has(virtualServerKey(op.virtualServer));
  return op.kind === 'add-real-server' && keys.has(virtualServerKey(op.id));
}
