import { MODES } from '../../base/proxy-mode.ts';
import { diffAddresses } from '../../diff/address-diff.ts';
import { diffIpSet } from '../../diff/ip-set-diff.ts';
import { diffRoutes } from '../../diff/route-diff.ts';
import { type WantedVirtualServer, diffVirtualServer, isInForce } from '../../diff/virtual-server-diff.ts';
import type { KernelReader, ObservedIpSet } from '../../kernel/kernel.ts';
import { IP_FAMILIES, type IpFamily, familyOf } from '../../base/ip.ts';
import type { Yielder } from '../../base/yielder.ts';
import { planLocalRoutes } from '../../plan/local-routes.ts';
import { type NodePlan, setKey } from '../../plan/node/node-plan.ts';
import { SET_ROLES, type SetRole, plannedSet, setName } from '../../plan/ipvs/set-names.ts';
import { TWIN_PREFIX, hasSameType, ipSetEntryKey } from '../../state/ip-set.ts';
import { type Op, familyOfOp } from '../../state/op.ts';
import { Transaction } from '../../state/transaction.ts';
import {
  type VirtualServer,
  type VirtualServerId,
  type VirtualServerKey,
  virtualServerKey,
} from '../../state/virtual-server.ts';
import { KnownServers } from '../../diff/known-servers.ts';
import { Ownership } from '../node/ownership.ts';
import { readRealServers, readVirtualServers } from './read-virtual-servers.ts';
import { type WrongSet, replaceWrongSets } from './set-replacement.ts';
import type { SyncParts } from './sync-parts.ts';
import type { SyncProgress } from './sync-progress.ts';

/** Virtual servers per batch. A change sync waits for the end of a batch, which takes a few milliseconds. */
const BATCH = 64;
/** Real servers per batch, unless one virtual server has more. */
const BATCH_SERVERS = 4_096;
/** In a first sync, during which no change sync waits, and in iptables mode, where each batch runs a program. */
const LARGE_BATCH = 4_096;

// Deny entries are added last and deleted first (see inSafeOrder in change-ops.ts).
const ROLES_DENY_LAST: readonly SetRole[] = [
  ...SET_ROLES.filter((role) => role !== 'LOAD-BALANCER-FW'),
  'LOAD-BALANCER-FW',
];

/**
 * Compares the whole kernel state with the plan, in batches: sets, virtual servers, addresses, then all deletions. It
 * replaces sets of a wrong type itself. Between two batches the caller applies the operations and may run change syncs,
 * so plan and kernel may have changed since an earlier read. Each difference is therefore read again before it becomes
 * an operation. In a first sync, the caller applies all batches together, and no change sync runs before that.
 *
 * Families in `progress.leftOut` are not compared. After the first sync, it adds those that cannot be read.
 */
export async function* fullCheck(
  parts: SyncParts,
  progress: SyncProgress,
  yielder: Yielder,
): AsyncGenerator<Transaction, void> {
  const { leftOut } = progress;
  for await (const tx of compareAll(parts, progress, yielder)) {
    yield leftOut.size === 0 ? tx : tx.filter((op) => !leftOut.has(familyOfOp(op)));
  }
}

async function* compareAll(
  parts: SyncParts,
  progress: SyncProgress,
  yielder: Yielder,
): AsyncGenerator<Transaction, void> {
  const { kernel, config, log, schedule, applier, ledger, excluded, written } = parts;
  const { plan } = parts.desired;
  const first = progress.kind === 'first';
  schedule.fullCheckBegins();
  let sets = first
    ? await kernel.getSets(undefined, new Set(progress.leftOut.keys()))
    : await parts.awaitWhileServing(readSets(kernel, progress));
  const without: ReadonlySet<IpFamily> = new Set(progress.leftOut.keys());
  // A change sync that fails would end the check.
  const isServing = !first && without.size === 0;
  const awaitWhileServing = async <T>(work: Promise<T>): Promise<T> =>
    isServing ? parts.awaitWhileServing(work) : work;
  let { add, surplus: surplusEntries, wrong } = await awaitWhileServing(checkSets(parts, sets, without, yielder));
  if (!first && add.length + surplusEntries.length > 0) {
    sets = await kernel.getSets(undefined, without);
    ({ add, surplus: surplusEntries, wrong } = await checkSets(parts, sets, without, yielder));
  }
  await applier.note(await replaceWrongSets(kernel, config, plan, wrong, log), progress, yielder);
  const clusterIps = MODES[kernel.mode].rejectsUnserved ? add.filter(isClusterIp) : [];
  yield new Transaction(clusterIps.length === 0 ? add : add.filter((op) => !isClusterIp(op)));
  const bound = await awaitWhileServing(kernel.getBoundAddresses());
  const listed = await awaitWhileServing(kernel.getVirtualServers(without));
  const unmarked = first && parts.addresses.unmarked;
  const ownership = new Ownership({
    sets,
    boundAddresses: bound.map(({ address }) => address),
    interfaceAddresses: unmarked ? (await kernel.getNodeAddresses()).map(({ address }) => address) : [],
    excluded,
  });
  // A virtual server at a planned address is ours even if another program unbound that address from kube-ipvs0.
  const owns = (id: VirtualServerId): boolean =>
    MODES[kernel.mode].ownsAll ||
    ownership.owns(id, plan.wantsAddress(id.address) || written.has(virtualServerKey(id)));
  const surplus = listed.filter((id) => plan.virtualServer(virtualServerKey(id)) === undefined && owns(id));
  const byKey = new Map(listed.map((found) => [virtualServerKey(found), found]));
  yield* checkVirtualServers(parts, byKey, { first, without }, yielder);

  const suspected = await yielder.finish(diffAddresses(plan.addresses(), bound));
  const reread = first || suspected.length === 0 ? undefined : await kernel.getBoundAddresses();
  const tx = new Transaction(
    reread === undefined ? suspected : await yielder.finish(diffAddresses(plan.addresses(), reread)),
  );
  for (const id of first ? surplus : (await kernel.findVirtualServers(surplus)).values()) {
    const { address, port, protocol } = id;
    if (plan.virtualServer(virtualServerKey(id)) === undefined) {
      ledger.keepOnly(id);
      tx.push({ kind: 'delete-virtual-server', id: { address, port, protocol } });
    }
    if (yielder.due) await yielder.yieldIfDue();
  }
  tx.add(lastEntries(plan, clusterIps, surplusEntries));
  // Destroy twin sets that an earlier sync could not destroy.
  for (const set of sets) if (set.name.startsWith(TWIN_PREFIX)) tx.push({ kind: 'destroy-set', set });
  const routes = planLocalRoutes(config);
  // If no routes are configured, only the first check reads routes, to delete those of an earlier configuration.
  if (first || routes.length > 0) tx.add(diffRoutes(routes, await kernel.getLocalRoutes()));
  yield tx;
  schedule.fullCheckEnded();
}

/** Reads all sets. Leaves out a family that cannot be read, unless none can. */
async function readSets(kernel: KernelReader, { leftOut }: SyncProgress): Promise<ObservedIpSet[]> {
  try {
    return await kernel.getSets();
  } catch (error) {
    const sets: ObservedIpSet[] = [];
    for (const family of IP_FAMILIES) {
      const others = new Set(IP_FAMILIES.filter((each) => each !== family));
      try {
        for (const set of await kernel.getSets(undefined, others)) if (set.family === family) sets.push(set);
      } catch (reason) {
        leftOut.set(family, reason);
      }
    }
    if (leftOut.size === IP_FAMILIES.length) throw error;
    return sets;
  }
}

type AddEntry = Extract<Op, { kind: 'add-entry' }>;

function isClusterIp(op: Op): op is AddEntry {
  return op.kind === 'add-entry' && op.set.name === setName('IPVS-IPS', op.set.family);
}

/**
 * Returns those of these operations on entries that are still wanted. In nftables mode, packets to a cluster IP are rejected
 * as long as its virtual server is not there.
 */
function* lastEntries(
  plan: NodePlan,
  clusterIps: Iterable<AddEntry>,
  surplus: readonly SurplusEntry[],
): Generator<Op, void, undefined> {
  for (const op of clusterIps) {
    if (plan.entries('IPVS-IPS', op.set.family).has(ipSetEntryKey(op.entry))) yield op;
  }
  for (const { role, op } of surplus) {
    if (!plan.entries(role, op.set.family).has(ipSetEntryKey(op.entry))) yield op;
  }
}

interface SurplusEntry {
  readonly role: SetRole;
  readonly op: Extract<Op, { kind: 'delete-entry' }>;
}

interface SetsFound {
  readonly add: readonly Op[];
  readonly surplus: readonly SurplusEntry[];
  readonly wrong: readonly WrongSet[];
}

async function checkSets(
  { desired: { plan }, config, sizes }: SyncParts,
  observed: readonly ObservedIpSet[],
  without: ReadonlySet<IpFamily>,
  yielder: Yielder,
): Promise<SetsFound> {
  const byName = new Map(observed.map((set) => [set.name, set]));
  const add: Op[] = [];
  const surplus: SurplusEntry[] = [];
  const wrong: WrongSet[] = [];
  for (const family of config.families.filter((each) => !without.has(each))) {
    for (const role of ROLES_DENY_LAST) {
      const planned = plan.entries(role, family);
      const set = plannedSet(role, family, planned.size);
      const found = byName.get(set.name);
      sizes.set(setKey(role, family), Math.max(set.maxEntries, found?.maxEntries ?? 0));
      if (found !== undefined && !hasSameType(set, found)) {
        wrong.push({ role, wanted: set, found });
        // These operations fail until the set is replaced, and so tell the deny guard which deny entries are missing.
        if (role === 'LOAD-BALANCER-FW') {
          for (const { entry } of planned.values()) add.push({ kind: 'add-entry', set, entry });
        }
        continue;
      }
      for (const op of await yielder.finish(diffIpSet(set, planned, found))) {
        if (op.kind === 'delete-entry') surplus.push({ role, op });
        else add.push(op);
      }
      if (yielder.due) await yielder.yieldIfDue();
    }
  }
  return { add, surplus: surplus.toSorted((a, b) => denyFirst(a) - denyFirst(b)), wrong };
}

function denyFirst({ role }: SurplusEntry): number {
  return role === 'LOAD-BALANCER-FW' ? 0 : 1;
}

/** Checks all planned virtual servers in batches, so that their real servers are never all in memory at once. */
async function* checkVirtualServers(
  parts: SyncParts,
  listed: ReadonlyMap<VirtualServerKey, VirtualServer>,
  { first, without }: { readonly first: boolean; readonly without: ReadonlySet<IpFamily> },
  yielder: Yielder,
): AsyncGenerator<Transaction, void> {
  const isLarge = first || MODES[parts.kernel.mode].batchesRunPrograms;
  const [most, mostServers] = isLarge ? [LARGE_BATCH, Infinity] : [BATCH, BATCH_SERVERS];
  let batch: WantedVirtualServer[] = [];
  let servers = 0;
  // The iteration includes virtual servers added to the plan meanwhile and skips those removed from it.
  for (const wanted of parts.desired.plan.virtualServers()) {
    if (without.has(familyOf(wanted.virtualServer.address))) continue;
    batch.push(wanted);
    servers += wanted.realServers.length;
    if (batch.length < most && servers < mostServers) continue;
    yield await checkBatch(parts, batch, listed, first, yielder);
    batch = [];
    servers = 0;
  }
  yield await checkBatch(parts, batch, listed, first, yielder);
}

async function checkBatch(
  { kernel, order, ledger, known, clock }: SyncParts,
  batch: readonly WantedVirtualServer[],
  listed: ReadonlyMap<VirtualServerKey, VirtualServer>,
  first: boolean,
  yielder: Yielder,
): Promise<Transaction> {
  if (yielder.due) await yielder.yieldIfDue();
  const present = batch.flatMap(({ virtualServer }) => listed.get(virtualServerKey(virtualServer)) ?? []);
  let found = await readRealServers(kernel, present);
  known.doubt(KnownServers.tunnelled(found));
  let suspects = batch;
  if (!first) {
    suspects = batch.filter((wanted) => !isInForce(wanted, found.get(virtualServerKey(wanted.virtualServer))));
    const suspected = new Set(suspects);
    for (const wanted of batch) if (!suspected.has(wanted)) ledger.keepOnly(wanted.virtualServer);
    // Read the suspects again, because `listed` was read before the first batch.
    found = await readVirtualServers(
      kernel,
      suspects.map(({ virtualServer }) => virtualServer),
    );
  }
  const tx = new Transaction();
  const context = { order, ledger, now: clock.now() };
  for (const wanted of suspects) {
    const { virtualServer: id } = wanted;
    diffVirtualServer(id, wanted, found.get(virtualServerKey(id)), context, tx);
    if (yielder.due) await yielder.yieldIfDue();
  }
  return tx;
}
