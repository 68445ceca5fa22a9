import { type IpAddress, type IpFamily, familyOf } from '../../base/ip.ts';
import type { Yielder } from '../../base/yielder.ts';
import { MODES } from '../../base/proxy-mode.ts';
import { diffAddresses } from '../../diff/address-diff.ts';
import type { WantedVirtualServer } from '../../diff/virtual-server-diff.ts';
import type { KernelReader, ObservedIpSet } from '../../kernel/kernel.ts';
import { setName } from '../../state/set-roles.ts';
import type { NodePlan } from '../../plan/node/node-plan.ts';
import type { PlanConfig } from '../../plan/plan-config.ts';
import type { BoundAddress } from '../../state/bound-address.ts';
import { TWIN_PREFIX } from '../../state/ip-set.ts';
import { type Op, deletionOfServer } from '../../state/op.ts';
import { Transaction } from '../../state/transaction.ts';
import { type VirtualServer, borrows, virtualServerKey } from '../../state/virtual-server.ts';
import type { DesiredState } from '../desired/desired-state.ts';
import { differingRoutes } from '../node/node-difference.ts';
import { type OwnershipParts, ownershipIn } from '../node/ownership.ts';
import { type ServerComparisonParts, compareListed } from './server-comparison.ts';
import { type AddEntry, type SetSizes, type WrongSet, compareSets, isPlanned } from './set-comparison.ts';

/** The plan and the kernel, which are compared, and the records for later syncs. */
export interface ComparisonParts extends ServerComparisonParts, OwnershipParts {
  readonly kernel: KernelReader;
  readonly config: PlanConfig;
  readonly desired: DesiredState;
  readonly sizes: SetSizes;
}

export interface ComparisonOptions {
  /**
   * first: nothing else writes meanwhile; objects of an earlier configuration are looked for, too. full: plan and kernel may
   * change between two batches, so what differs is read again before it is returned. read: nothing will be written.
   */
  readonly kind: 'first' | 'full' | 'read';
  /** Families that are not compared. */
  readonly without: ReadonlySet<IpFamily>;
  /** Node addresses at which virtual servers of node ports are ours although no set names them (see Ownership). */
  readonly unmarkedAddresses: readonly IpAddress[];
  /** Waits for a long read. */
  readonly wait: <T>(read: Promise<T>) => Promise<T>;
  /** Replaces sets of the wrong type. Returns operations that remain to be done. */
  readonly replace: (wrong: readonly WrongSet[]) => Promise<readonly Op[]>;
}

/** A batch of so many virtual servers or real servers takes a few milliseconds. Change syncs wait for its end. */
const BATCH = { virtualServers: 64, realServers: 4_096 };
/** In iptables mode, each batch runs a program. */
const LARGE_BATCH = { virtualServers: 4_096, realServers: Infinity };

/**
 * Compares the whole kernel state with the plan, in batches: sets, virtual servers, then addresses, all deletions and routes.
 * The caller applies each batch before it asks for the next one, or all together, or none.
 *
 * @param sets all sets that the kernel has
 */
export async function* compareAll(
  parts: ComparisonParts,
  options: ComparisonOptions,
  sets: readonly ObservedIpSet[],
  yielder: Yielder,
): AsyncGenerator<Transaction, void> {
  const { kernel, config, desired, sizes } = parts;
  const { plan } = desired;
  const { kind, without, wait } = options;
  const mayChange = kind === 'full';
  const families = config.families.filter((family) => !without.has(family));
  let found = sets;
  let ofSets = await wait(compareSets(plan, families, found, sizes, yielder));
  if (mayChange && ofSets.additions.length + ofSets.deletions.length > 0) {
    found = await kernel.getSets(undefined, without);
    ofSets = await compareSets(plan, families, found, sizes, yielder);
  }
  // In nftables mode, packets to a cluster IP are rejected as long as its virtual server is not there.
  const isLate = (op: Op): op is AddEntry => MODES[kernel.mode].rejectsUnserved && isClusterIp(op);
  const replacing = ofSets.wrong.length === 0 ? [] : await options.replace(ofSets.wrong);
  await yielder.yieldIfDue();
  yield new Transaction([...replacing, ...ofSets.additions.filter((op) => !isLate(op))]);

  const bound = await wait(kernel.getBoundAddresses());
  const listed = await wait(kernel.getVirtualServers(without));
  const boundAddresses = bound.map(({ address }) => address);
  const owns = ownershipIn(parts, { sets: found, boundAddresses, interfaceAddresses: options.unmarkedAddresses });
  const surplus = listed.filter((id) => plan.virtualServer(virtualServerKey(id)) === undefined && owns(id));
  const byKey = new Map(listed.map((each) => [virtualServerKey(each), each]));
  const most = MODES[kernel.mode].batchesRunPrograms ? LARGE_BATCH : BATCH;
  for (const batch of batches(lendersFirst(plan), without, most)) {
    if (yielder.due) await yielder.yieldIfDue();
    yield new Transaction(await compareListed(parts, batch, byKey, mayChange, yielder));
  }

  const tx = new Transaction(await compareAddresses(parts, bound, mayChange, yielder));
  tx.add(await deletionsOf(parts, surplus, mayChange, yielder));
  await yielder.yieldIfDue();
  tx.add(ofSets.additions.filter(isLate).filter((op) => isPlanned(plan, op)));
  tx.add(ofSets.deletions.filter((op) => !isPlanned(plan, op)));
  // Twins that an earlier sync could not destroy.
  tx.add(found.filter(({ name }) => name.startsWith(TWIN_PREFIX)).map((set): Op => ({ kind: 'destroy-set', set })));
  tx.add(await differingRoutes(kernel, config, kind === 'first'));
  yield tx;
}

function isClusterIp(op: Op): op is AddEntry {
  return op.kind === 'add-entry' && op.set.name === setName('IPVS-IPS', op.set.family);
}

/** Divides virtual servers, so that their real servers are never all in memory at once. */
function* batches(
  all: Iterable<WantedVirtualServer>,
  without: ReadonlySet<IpFamily>,
  most: typeof BATCH,
): Generator<readonly WantedVirtualServer[], void> {
  let batch: WantedVirtualServer[] = [];
  let servers = 0;
  for (const wanted of all) {
    if (without.has(familyOf(wanted.virtualServer.address))) continue;
    batch.push(wanted);
    servers += isBorrower(wanted) ? 0 : wanted.realServers.length;
    if (batch.length < most.virtualServers && servers < most.realServers) continue;
    yield batch;
    batch = [];
    servers = 0;
  }
  if (batch.length > 0) yield batch;
}

/**
 * Yields all virtual servers; those that have the list of another one come last, because it must exist. The plan may change
 * meanwhile: the iterations include what is added and skip what is removed.
 */
function* lendersFirst(plan: NodePlan): Generator<WantedVirtualServer, void> {
  let hasBorrowers = false;
  for (const wanted of plan.virtualServers()) {
    if (isBorrower(wanted)) hasBorrowers = true;
    else yield wanted;
  }
  if (hasBorrowers) for (const wanted of plan.virtualServers()) if (isBorrower(wanted)) yield wanted;
}

function isBorrower({ virtualServer }: WantedVirtualServer): boolean {
  return borrows(virtualServer, virtualServer);
}

async function compareAddresses(
  { kernel, desired: { plan } }: ComparisonParts,
  bound: readonly BoundAddress[],
  mayChange: boolean,
  yielder: Yielder,
): Promise<readonly Op[]> {
  const ops = await yielder.finish(diffAddresses(plan.addresses(), bound));
  if (!mayChange || ops.length === 0) return ops;
  return await yielder.finish(diffAddresses(plan.addresses(), await kernel.getBoundAddresses()));
}

/** Returns the deletions of those of these virtual servers that no Service needs. */
async function deletionsOf(
  { kernel, ledger, desired: { plan } }: ComparisonParts,
  surplus: readonly VirtualServer[],
  mayChange: boolean,
  yielder: Yielder,
): Promise<readonly Op[]> {
  const ops: Op[] = [];
  for (const found of mayChange ? (await kernel.findVirtualServers(surplus)).values() : surplus) {
    if (plan.virtualServer(virtualServerKey(found)) !== undefined) continue;
    ledger.keepOnly(found);
    ops.push(deletionOfServer(found));
    if (yielder.due) await yielder.yieldIfDue();
  }
  return ops;
}
