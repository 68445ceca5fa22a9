import { diffAddresses } from '../diff/address-diff.ts';
import { diffIpSet } from '../diff/ip-set-diff.ts';
import { diffRoutes } from '../diff/route-diff.ts';
import { type WantedVirtualServer, diffVirtualServer, isInForce } from '../diff/virtual-server-diff.ts';
import type { ObservedIpSet } from '../kernel/kernel.ts';
import type { Yielder } from '../base/yielder.ts';
import { planLocalRoutes } from '../plan/local-routes.ts';
import { type NodePlan, type SetKey, setKey } from '../plan/node-plan.ts';
import { SET_ROLES, type SetRole, plannedSet } from '../plan/set-names.ts';
import type { BoundAddress } from '../state/bound-address.ts';
import { ipSetEntryKey } from '../state/ip-set.ts';
import type { Op } from '../state/op.ts';
import {
  type VirtualServer,
  type VirtualServerId,
  type VirtualServerKey,
  virtualServerKey,
} from '../state/virtual-server.ts';
import type { DrainingVirtualServer } from './draining.ts';
import { Ownership } from './ownership.ts';
import { readRealServers, readVirtualServers } from './read-virtual-servers.ts';
import type { WrongSet } from './set-replacement.ts';
import type { SyncParts } from './sync-parts.ts';

export interface FullCheckOptions extends Pick<
  SyncParts,
  'kernel' | 'config' | 'excluded' | 'ledger' | 'clock' | 'awaitWhileServing'
> {
  readonly plan: NodePlan;
  readonly yielder: Yielder;
  /** Whether this is a first sync: batches are applied together at the end, and no change sync runs before that. */
  readonly first: boolean;
  /** Whether KUBE-NODE-PORT-IP was missing when this process started (see OwnershipEvidence). */
  readonly unmarked: boolean;
}

/** One batch of the results of a full check. */
export interface CheckBatch {
  readonly ops: readonly Op[];
  /** Present in the first batch only. */
  readonly sets?: {
    readonly wrong: readonly WrongSet[];
    /** The capacity of each set after the operations. */
    readonly sizes: Map<SetKey, number>;
  };
  /** The virtual servers that were checked, and those of them with draining real servers. */
  readonly virtualServers?: {
    readonly ids: readonly VirtualServerId[];
    readonly draining: readonly DrainingVirtualServer[];
  };
}

/** Virtual servers per batch. A change sync waits for the end of a batch, which takes a few milliseconds. */
const BATCH = 64;
/** Virtual servers per batch in a first sync, during which no change sync waits. */
const FIRST_BATCH = 4_096;

// Deny entries are added last and deleted first (see inSafeOrder in change-sync.ts).
const ROLES_DENY_LAST: readonly SetRole[] = [
  ...SET_ROLES.filter((role) => role !== 'LOAD-BALANCER-FW'),
  'LOAD-BALANCER-FW',
];

/**
 * Compares the whole kernel state with the plan, in batches: sets, virtual servers, addresses, then all deletions.
 * Between two batches the caller applies the operations and may run change syncs, so plan and kernel may have changed
 * since an earlier read. Each difference is therefore read again before it becomes an operation.
 */
export async function* fullCheck(options: FullCheckOptions): AsyncGenerator<CheckBatch, void> {
  const { kernel, plan, config, excluded, ledger, yielder, first, unmarked } = options;
  const awaitWhileServing = async <T>(read: Promise<T>): Promise<T> => (first ? read : options.awaitWhileServing(read));
  let sets = await awaitWhileServing(kernel.getSets());
  let { add, surplus: surplusEntries, ...found } = await awaitWhileServing(checkSets(options, sets));
  if (!first && add.length + surplusEntries.length > 0) {
    sets = await kernel.getSets();
    ({ add, surplus: surplusEntries, ...found } = await checkSets(options, sets));
  }
  yield { ops: add, sets: found };
  const bound = await awaitWhileServing(kernel.getBoundAddresses());
  const addresses = bound.map(({ address }) => address);
  const listed = await awaitWhileServing(kernel.getVirtualServers());
  const interfaceAddresses = unmarked ? (await kernel.getNodeAddresses()).map(({ address }) => address) : [];
  const ownership = new Ownership({ sets, boundAddresses: addresses, interfaceAddresses, excluded });
  // A virtual server at a planned address is ours even if another program unbound that address from kube-ipvs0.
  const owns = (id: VirtualServerId): boolean => ownership.owns(id, plan.wantsAddress(id.address));
  const surplus = listed.filter((id) => plan.virtualServer(virtualServerKey(id)) === undefined && owns(id));
  yield* checkVirtualServers(options, new Map(listed.map((found) => [virtualServerKey(found), found])));

  const ops: Op[] = await addressOps(options, bound);
  for (const id of first ? surplus : (await kernel.findVirtualServers(surplus)).values()) {
    const { address, port, protocol } = id;
    const unwanted = plan.virtualServer(virtualServerKey(id)) === undefined;
    if (unwanted) {
      ledger.keepOnly(id, []);
      ops.push({ kind: 'delete-virtual-server', id: { address, port, protocol } });
    }
    if (yielder.due) await yielder.yieldIfDue();
  }
  for (const { role, op } of surplusEntries) {
    if (!plan.entries(role, op.set.family).has(ipSetEntryKey(op.entry))) ops.push(op);
  }
  const routes = planLocalRoutes(config);
  // If no routes are configured, only the first check reads routes, to delete those of an earlier configuration.
  if (first || routes.length > 0) ops.push(...diffRoutes(routes, await kernel.getLocalRoutes()));
  yield { ops };
}

interface SurplusEntry {
  readonly role: SetRole;
  readonly op: Extract<Op, { kind: 'delete-entry' }>;
}

interface SetsFound {
  readonly add: readonly Op[];
  readonly surplus: readonly SurplusEntry[];
  readonly wrong: readonly WrongSet[];
  readonly sizes: Map<SetKey, number>;
}

async function checkSets({ plan, config, yielder }: FullCheckOptions, have: ObservedIpSet[]): Promise<SetsFound> {
  const byName = new Map(have.map((set) => [set.name, set]));
  const add: Op[] = [];
  const surplus: SurplusEntry[] = [];
  const wrong: WrongSet[] = [];
  const sizes = new Map<SetKey, number>();
  for (const family of config.families) {
    for (const role of ROLES_DENY_LAST) {
      const planned = plan.entries(role, family);
      const set = plannedSet(role, family, planned.size);
      const observed = byName.get(set.name);
      const diff = await yielder.finish(diffIpSet(set, planned, observed));
      if (diff.wrong !== undefined) {
        wrong.push({ role, ...diff.wrong });
        // These fail until the set is replaced. They tell the deny guard which virtual servers have no deny entry.
        if (role === 'LOAD-BALANCER-FW') {
          for (const { entry } of planned.values()) add.push({ kind: 'add-entry', set, entry });
        }
      }
      for (const op of diff.ops) {
        if (op.kind === 'delete-entry') surplus.push({ role, op });
        else add.push(op);
      }
      sizes.set(setKey(role, family), Math.max(set.maxEntries, observed?.maxEntries ?? 0));
      if (yielder.due) await yielder.yieldIfDue();
    }
  }
  return { add, surplus: surplus.toSorted((a, b) => denyFirst(a) - denyFirst(b)), wrong, sizes };
}

function denyFirst({ role }: SurplusEntry): number {
  return role === 'LOAD-BALANCER-FW' ? 0 : 1;
}

/** Checks all planned virtual servers in batches, so that their real servers are never all in memory at once. */
async function* checkVirtualServers(
  options: FullCheckOptions,
  listed: ReadonlyMap<VirtualServerKey, VirtualServer>,
): AsyncGenerator<CheckBatch, void> {
  const { plan, first } = options;
  const size = first ? FIRST_BATCH : BATCH;
  let batch: WantedVirtualServer[] = [];
  // The iteration includes virtual servers added to the plan meanwhile and skips those removed from it.
  for (const want of plan.virtualServers()) {
    batch.push(want);
    if (batch.length < size) continue;
    yield await checkBatch(options, batch, listed);
    batch = [];
  }
  yield await checkBatch(options, batch, listed);
}

async function checkBatch(
  { kernel, ledger, clock, yielder, first }: FullCheckOptions,
  wanted: readonly WantedVirtualServer[],
  listed: ReadonlyMap<VirtualServerKey, VirtualServer>,
): Promise<CheckBatch> {
  const ops: Op[] = [];
  const draining: DrainingVirtualServer[] = [];
  if (yielder.due) await yielder.yieldIfDue();
  const present = wanted.flatMap(({ virtualServer }) => listed.get(virtualServerKey(virtualServer)) ?? []);
  let have = await readRealServers(kernel, present);
  let suspects: WantedVirtualServer[] = [...wanted];
  if (!first) {
    suspects = [];
    for (const want of wanted) {
      if (isInForce(want, have.get(virtualServerKey(want.virtualServer)))) ledger.keepOnly(want.virtualServer, []);
      else suspects.push(want);
    }
    // Read the suspects again, because `listed` was read before the first batch.
    have = await readVirtualServers(
      kernel,
      suspects.map(({ virtualServer }) => virtualServer),
    );
  }
  const now = clock.now();
  for (const want of suspects) {
    const { virtualServer: id } = want;
    const servers = diffVirtualServer(id, want, have.get(virtualServerKey(id)), ledger, now, ops);
    if (servers > 0) draining.push({ id, servers });
    if (yielder.due) await yielder.yieldIfDue();
  }
  return { ops, virtualServers: { ids: wanted.map(({ virtualServer }) => virtualServer), draining } };
}

async function addressOps(
  { kernel, plan, yielder, first }: FullCheckOptions,
  seen: readonly BoundAddress[],
): Promise<Op[]> {
  const suspected = await yielder.finish(diffAddresses(plan.addresses(), seen));
  if (first || suspected.length === 0) return [...suspected];
  return [...(await yielder.finish(diffAddresses(plan.addresses(), await kernel.getBoundAddresses())))];
}
