import { diffAddresses } from '../diff/address-diff.ts';
import type { DrainLedger } from '../diff/drain.ts';
import { type WrongSet, diffIpSet } from '../diff/ip-set-diff.ts';
import { diffVirtualServer } from '../diff/virtual-server-diff.ts';
import type { Cidr } from '../net/cidr.ts';
import type { IpFamily } from '../net/ip.ts';
import { type NodePlan, type SetKey, setKey } from '../plan/node-plan.ts';
import { SET_ROLES, type SetRole, plannedSet } from '../plan/set-names.ts';
import type { Op } from '../state/op.ts';
import { virtualServerKey } from '../state/virtual-server.ts';
import type { Breather } from '../net/breather.ts';
import type { SyncOps } from './change-sync.ts';
import type { DrainingVirtualServer } from './draining.ts';
import type { ObservedState } from './observed-state.ts';
import { Ownership } from './ownership.ts';

export interface FullCheck extends SyncOps {
  readonly wrongSets: readonly WrongSet[];
  readonly sizes: Map<SetKey, number>;
}

// Entries that keep clients out go into the sets last and leave them first (see inSafeOrder in change-sync.ts).
const ROLES_DENY_LAST: readonly SetRole[] = [
  ...SET_ROLES.filter((role) => role !== 'LOAD-BALANCER-FW'),
  'LOAD-BALANCER-FW',
];

/** What brings the whole kernel to the whole plan. Nothing to mend: no operations. */
export async function fullCheckOps(
  plan: NodePlan,
  have: ObservedState,
  families: readonly IpFamily[],
  excluded: readonly Cidr[],
  ledger: DrainLedger,
  now: number,
  breather: Breather,
): Promise<FullCheck> {
  const ops: Op[] = [];
  const draining: DrainingVirtualServer[] = [];
  for (const want of plan.virtualServers()) {
    const { virtualServer: id } = want;
    const servers = diffVirtualServer(id, want, have.virtualServers.get(virtualServerKey(id)), ledger, now, ops);
    if (servers > 0) draining.push({ id, servers });
    if (breather.due) await breather.breathe();
  }
  const ownership = new Ownership(have.sets.values(), have.addresses, excluded);
  for (const [key, { virtualServer }] of have.virtualServers) {
    const { address, port, protocol } = virtualServer;
    const id = { address, port, protocol };
    if (plan.virtualServer(key) === undefined && ownership.owns(id)) ops.push({ kind: 'delete-virtual-server', id });
    if (breather.due) await breather.breathe();
  }
  for (const op of await breather.finish(diffAddresses(plan.addresses(), have.addresses))) ops.push(op);
  const { wrongSets, sizes } = await setOps(plan, have, families, ops, breather);
  return { ops, draining, wrongSets, sizes };
}

async function setOps(
  plan: NodePlan,
  have: ObservedState,
  families: readonly IpFamily[],
  ops: Op[],
  breather: Breather,
): Promise<Pick<FullCheck, 'wrongSets' | 'sizes'>> {
  const wrongSets: WrongSet[] = [];
  const sizes = new Map<SetKey, number>();
  const deletes: Op[] = [];
  for (const family of families) {
    for (const role of ROLES_DENY_LAST) {
      const planned = plan.entries(role, family);
      const set = plannedSet(role, family, planned.size);
      const observed = have.sets.get(set.name);
      const diff = await breather.finish(diffIpSet(set, planned, observed));
      if (diff.wrong !== undefined) wrongSets.push(diff.wrong);
      for (const op of diff.ops) (op.kind === 'delete-entry' ? deletes : ops).push(op);
      sizes.set(setKey(role, family), Math.max(set.maxEntries, observed?.maxEntries ?? 0));
      if (breather.due) await breather.breathe();
    }
  }
  // The last role was the deny: its deletions go to the front.
  for (const op of deletes.toSorted((a, b) => denyFirst(a) - denyFirst(b))) ops.push(op);
  return { wrongSets, sizes };
}

function denyFirst(op: Op): number {
  return op.kind === 'delete-entry' && op.set.name.endsWith('LOAD-BALANCER-FW') ? 0 : 1;
}
