import { MODES } from '../../base/proxy-mode.ts';
import type { Kernel } from '../../kernel/kernel.ts';
import { familyOf } from '../../base/ip.ts';
import type { NodePlan } from '../../plan/node/node-plan.ts';
import type { PlannedEntry } from '../../plan/service-plan.ts';
import { plannedSet, setName } from '../../state/set-roles.ts';
import { hasSameType, ipSetEntryKey } from '../../state/ip-set.ts';
import { type Op, deletionOfServer } from '../../state/op.ts';
import type { OpFailure, Outcome } from '../../state/outcome.ts';
import { Transaction } from '../../state/transaction.ts';
import {
  type VirtualServer,
  type VirtualServerId,
  type VirtualServerKey,
  virtualServerKey,
} from '../../state/virtual-server.ts';

const DENY_SETS: ReadonlySet<string> = new Set([setName('LOAD-BALANCER-FW', 4), setName('LOAD-BALANCER-FW', 6)]);

/** The part of the plan that tells which virtual servers have source ranges. */
export type RestrictedPlan = Pick<NodePlan, 'entries' | 'virtualServer'>;

type AddEntry = Extract<Op, { kind: 'add-entry' }>;

/**
 * Applies a transaction so that no load balancer IP with source ranges is ever open to everyone. All code that writes
 * virtual servers must use it. A virtual server with source ranges and its real servers are added only after this
 * transaction wrote its deny entry to a set of the right type. If that write fails, they are not added; with
 * `withdraw`, an existing virtual server is deleted.
 *
 * If a set cannot grow, entries are added up to its current capacity: only the others fail.
 */
export async function applyGuarded(
  kernel: Kernel,
  plan: RestrictedPlan,
  tx: Transaction,
  { withdraw }: { readonly withdraw: boolean },
): Promise<Outcome> {
  if (MODES[kernel.mode].appliesTogether) return await applyWhole(kernel, tx, withdraw);
  const added = restrictedAdditions(plan, tx);
  const guarded = added.length > 0 || tx.of('grow-set').length > 0 || tx.of('add-entry').some(isDeny);
  if (!guarded) return kernel.apply(tx);

  return await applyInStages(kernel, plan, tx, added, withdraw);
}

/** Returns the deny entry of a virtual server; undefined if the virtual server has no source ranges. */
export function denyOf(
  plan: Pick<NodePlan, 'entries'>,
  { address, port, protocol }: VirtualServerId,
): PlannedEntry | undefined {
  const denies = plan.entries('LOAD-BALANCER-FW', familyOf(address));
  if (denies.size === 0) return undefined;
  return denies.get(ipSetEntryKey({ type: 'hash:ip,port', address, port, protocol }));
}

/**
 * In nftables and iptables mode, the virtual server itself has the source ranges, and one transaction writes all of it. If an
 * edit is refused, and the kernel has none of its source ranges from an earlier sync, the virtual server is deleted.
 */
async function applyWhole(kernel: Kernel, tx: Transaction, withdraw: boolean): Promise<Outcome> {
  const outcome = await kernel.apply(tx);
  const edits = outcome.failures.flatMap(({ op }) =>
    op.kind === 'edit-virtual-server' && isRestricted(op.virtualServer) ? [op.virtualServer] : [],
  );
  if (!withdraw || edits.length === 0) return outcome;
  const found = await kernel.findVirtualServers(edits).catch(() => new Map<VirtualServerKey, VirtualServer>());
  const deletions = edits.filter((server) => !isRestricted(found.get(virtualServerKey(server)))).map(deletionOfServer);
  if (deletions.length === 0) return outcome;
  const withdrawn = await kernel.apply(new Transaction(deletions));
  return { ...outcome, failures: [...outcome.failures, ...withdrawn.failures] };
}

/** Whether a virtual server says itself that it has source ranges. */
function isRestricted(server: VirtualServer | undefined): boolean {
  return server?.traits?.admitted !== undefined;
}

/** Returns operations that add the deny entry of each virtual server that is added or gets a real server. */
function restrictedAdditions(plan: RestrictedPlan, tx: Transaction): AddEntry[] {
  if (plan.entries('LOAD-BALANCER-FW', 4).size + plan.entries('LOAD-BALANCER-FW', 6).size === 0) return [];
  const added = new Set<PlannedEntry | undefined>();
  for (const { virtualServer } of tx.of('add-virtual-server')) added.add(denyOf(plan, virtualServer));
  let last: VirtualServerId | undefined;
  for (const { id } of tx.of('add-real-server')) {
    // Real servers of a virtual server follow one another.
    if (id !== last) added.add(denyOf(plan, id));
    last = id;
  }
  return [...added].flatMap((deny): AddEntry[] => {
    if (deny === undefined) return [];
    const { role, family, entry } = deny;
    return [{ kind: 'add-entry', set: plannedSet(role, family, plan.entries(role, family).size), entry }];
  });
}

/**
 * In ipvs mode, sets come first, then the deny entries, then the rest. Without its deny entry, a virtual server is not added;
 * with `withdraw`, an existing one is deleted.
 */
async function applyInStages(
  kernel: Kernel,
  plan: RestrictedPlan,
  tx: Transaction,
  added: readonly AddEntry[],
  withdraw: boolean,
): Promise<Outcome> {
  const stages = new Stages(kernel);
  const failed = await stages.apply(tx.stage('add-sets').filter((op) => !isDeny(op)));
  const ofFullSets = tx.of('grow-set').flatMap((op) => (failed.has(op) ? additionsOf(op) : []));
  const all = [...tx.of('add-entry'), ...ofFullSets, ...added].filter(isDeny);
  const denies = [...new Map(all.map((op) => [ipSetEntryKey(op.entry), op])).values()];
  // A set of another type may accept an entry with another meaning.
  const found = await kernel.findSets([...new Set([...ofFullSets, ...denies].map(({ set }) => set.name))]);
  const misfit = ({ set }: AddEntry): Pick<OpFailure, 'code' | 'text'> | undefined => {
    const present = found.get(set.name);
    if (present === undefined) return { code: 'ENOENT', text: 'the set does not exist' };
    if (hasSameType(present, set)) return undefined;
    return { code: 'WRONG_TYPE', text: `the set has type ${present.type} of IPv${present.family}` };
  };
  await stages.apply(ofFullSets.filter((op) => !isDeny(op) && misfit(op) === undefined));
  const refused = await stages.apply(denies.filter((op) => misfit(op) === undefined));
  const undenied = new Set<VirtualServerKey>();
  for (const op of denies) {
    const reason = misfit(op);
    if (reason !== undefined) stages.failures.push({ op, errno: 0, ...reason });
    if (reason === undefined && !refused.has(op)) continue;
    if (op.entry.type === 'hash:ip,port') undenied.add(virtualServerKey(op.entry));
  }
  const withheld = planned(plan, undenied);
  for (const virtualServer of withheld) {
    stages.failures.push({ op: { kind: 'add-virtual-server', virtualServer }, errno: 0, ...WITHHELD });
  }
  const rest = tx.filter((op) => !isBeforeVirtualServers(op) && !serves(op, undenied));
  if (withdraw) rest.add(withheld.map(deletionOfServer));
  await stages.apply(rest);
  return stages;
}

/** Applies transactions one after another, and is the Outcome of all of them. */
class Stages implements Outcome {
  readonly #kernel: Kernel;
  readonly failures: OpFailure[] = [];
  stopped?: string;

  constructor(kernel: Kernel) {
    this.#kernel = kernel;
  }

  /** Returns the operations that failed. */
  async apply(ops: readonly Op[] | Transaction): Promise<ReadonlySet<Op>> {
    const tx = ops instanceof Transaction ? ops : new Transaction(ops);
    if (tx.size === 0) return new Set();
    const { failures, stopped } = await this.#kernel.apply(tx);
    for (const failure of failures) this.failures.push(failure);
    if (stopped !== undefined) this.stopped ??= stopped;
    return new Set(failures.map(({ op }) => op));
  }
}

function additionsOf({ set, entries }: Extract<Op, { kind: 'grow-set' }>): readonly AddEntry[] {
  return entries.map((entry) => ({ kind: 'add-entry', set, entry }));
}

function planned(plan: RestrictedPlan, keys: ReadonlySet<VirtualServerKey>): readonly VirtualServer[] {
  return Array.from(keys).flatMap((key) => plan.virtualServer(key)?.virtualServer ?? []);
}

const WITHHELD = { code: 'WITHHELD', text: 'not served, because its source ranges could not be enforced' };

function isBeforeVirtualServers(op: Op): boolean {
  return op.kind === 'create-set' || op.kind === 'grow-set' || op.kind === 'add-entry';
}

function isDeny(op: Op): op is AddEntry {
  return op.kind === 'add-entry' && DENY_SETS.has(op.set.name);
}

/** Returns whether the operation adds or changes one of these virtual servers or its real servers. */
function serves(op: Op, keys: ReadonlySet<VirtualServerKey>): boolean {
  if ('virtualServer' in op) return keys.has(virtualServerKey(op.virtualServer));
  const serving = op.kind === 'add-real-server' || op.kind === 'edit-real-server';
  return serving && keys.has(virtualServerKey(op.id));
}
