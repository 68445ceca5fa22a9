import { MODES } from '../../base/proxy-mode.ts';
import type { Kernel } from '../../kernel/kernel.ts';
import { familyOf } from '../../base/ip.ts';
import type { NodePlan } from '../../plan/node/node-plan.ts';
import type { PlannedEntry } from '../../plan/service-plan.ts';
import { plannedSet, setName } from '../../plan/ipvs/set-names.ts';
import { type IpSetEntryKey, hasSameType, ipSetEntryKey } from '../../state/ip-set.ts';
import type { Op } from '../../state/op.ts';
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

type GrowSet = Extract<Op, { kind: 'grow-set' }>;
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
  const added = restrictedAdditions(plan, tx);
  const guarded = added.length > 0 || tx.of('grow-set').length > 0 || tx.of('add-entry').some(isDeny);
  const restricts = tx.of('edit-virtual-server').some(({ virtualServer }) => isRestricted(virtualServer));
  if (!guarded && !restricts) return kernel.apply(tx);
  if (MODES[kernel.mode].appliesTogether) return await applyTogether(kernel, plan, tx, added, withdraw);

  const guard = new DenyGuard(kernel);
  await guard.writeSets(tx, added);
  await guard.apply(guard.withoutUndenied(plan, tx, withdraw));
  return { failures: guard.failures, ...(guard.stopped !== undefined && { stopped: guard.stopped }) };
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
 * In nftables and iptables mode, one transaction writes a virtual server with its endpoints and its deny entry: if the
 * endpoints came later, connections to a new address would be rejected until then. If the deny entry is refused, a new
 * virtual server is not added; an existing one is deleted, unless the kernel has the deny entry from an earlier sync. In
 * iptables mode, the virtual server itself has the source ranges.
 */
async function applyTogether(
  kernel: Kernel,
  plan: RestrictedPlan,
  tx: Transaction,
  added: readonly AddEntry[],
  withdraw: boolean,
): Promise<Outcome> {
  const outcome = await kernel.apply(new Transaction([...tx, ...added]));
  const refused = outcome.failures.flatMap(({ op }) => (isDeny(op) ? [op.entry] : []));
  const edits = outcome.failures.flatMap(({ op }) =>
    op.kind === 'edit-virtual-server' && isRestricted(op.virtualServer) ? [op.virtualServer] : [],
  );
  if (!withdraw || refused.length + edits.length === 0) return outcome;
  const inForce = await deniesInForce(kernel);
  const undenied = refused.flatMap((entry) =>
    entry.type === 'hash:ip,port' && !inForce.has(ipSetEntryKey(entry)) ? [virtualServerKey(entry)] : [],
  );
  if (edits.length > 0) {
    const found = await kernel.findVirtualServers(edits).catch(() => new Map<VirtualServerKey, VirtualServer>());
    for (const key of edits.map(virtualServerKey)) if (!isRestricted(found.get(key))) undenied.push(key);
  }
  const deletions = [...new Set(undenied)].flatMap((key): Op[] => {
    const planned = plan.virtualServer(key);
    if (planned === undefined) return [];
    const { address, port, protocol } = planned.virtualServer;
    return [{ kind: 'delete-virtual-server', id: { address, port, protocol } }];
  });
  if (deletions.length === 0) return outcome;
  const withdrawn = await kernel.apply(new Transaction(deletions));
  return { ...outcome, failures: [...outcome.failures, ...withdrawn.failures] };
}

/** Whether a virtual server says itself that it has source ranges, as in iptables mode. */
function isRestricted(server: VirtualServer | undefined): boolean {
  return server?.traits?.admitted !== undefined;
}

/** Returns the deny entries that the kernel has. If a set cannot be read, none of it, as if no source range were in force. */
async function deniesInForce(kernel: Kernel): Promise<ReadonlySet<IpSetEntryKey>> {
  const found = new Set<IpSetEntryKey>();
  for (const name of DENY_SETS) {
    for (const { entries } of await kernel.getSets([name]).catch(() => [])) {
      for (const entry of entries) found.add(ipSetEntryKey(entry));
    }
  }
  return found;
}

/** Returns operations that add the deny entry of each virtual server that is added or gets a real server. */
function restrictedAdditions(plan: RestrictedPlan, tx: Transaction): AddEntry[] {
  if (plan.entries('LOAD-BALANCER-FW', 4).size + plan.entries('LOAD-BALANCER-FW', 6).size === 0) return [];
  const added = new Set<PlannedEntry | undefined>();
  for (const { virtualServer } of tx.of('add-virtual-server')) added.add(denyOf(plan, virtualServer));
  for (const { id } of tx.of('add-real-server')) added.add(denyOf(plan, id));
  return [...added].flatMap((deny): AddEntry[] => {
    if (deny === undefined) return [];
    const { role, family, entry } = deny;
    return [{ kind: 'add-entry', set: plannedSet(role, family, plan.entries(role, family).size), entry }];
  });
}

class DenyGuard {
  readonly #kernel: Kernel;
  readonly failures: OpFailure[] = [];
  /** As in Outcome. */
  stopped: string | undefined;
  /** Virtual servers whose deny entry is in the kernel. */
  readonly #denied = new Set<VirtualServerKey>();
  /** Virtual servers whose deny entry could not be written. */
  readonly #undenied = new Set<VirtualServerKey>();

  constructor(kernel: Kernel) {
    this.#kernel = kernel;
  }

  /** Applies the additions to sets, then the deny entries, including those of `added`. */
  async writeSets(tx: Transaction, added: readonly AddEntry[]): Promise<void> {
    const failed = await this.apply(tx.stage('add-sets').filter((op) => !isDeny(op)));
    const notGrown = tx.of('grow-set').filter((op) => failed.has(op));
    for (const op of tx.of('grow-set')) {
      if (!failed.has(op) && DENY_SETS.has(op.set.name))
        for (const entry of op.entries) this.#note(entry, this.#denied);
    }
    const denies = [...tx.of('add-entry').filter(isDeny), ...(await this.#withoutGrowing(notGrown))];
    const written = new Set(denies.map(({ entry }) => ipSetEntryKey(entry)));
    const more = added.filter(({ entry }) => !written.has(ipSetEntryKey(entry)) && !this.#isDenied(entry));
    await this.#writeDenies([...denies, ...more]);
    for (const { entry } of added) if (!this.#isDenied(entry)) this.#note(entry, this.#undenied);
  }

  /** Applies the operations and returns those that failed. */
  async apply(ops: Iterable<Op>): Promise<ReadonlySet<Op>> {
    const tx = new Transaction(ops);
    if (tx.size === 0) return new Set();
    const { failures, stopped } = await this.#kernel.apply(tx);
    for (const failure of failures) this.failures.push(failure);
    this.stopped ??= stopped;
    return new Set(failures.map(({ op }) => op));
  }

  /**
   * Returns the operations that follow those on sets. Omits operations that would serve a virtual server without a deny
   * entry; with `withdraw`, adds the deletion of this virtual server.
   */
  *withoutUndenied(plan: RestrictedPlan, tx: Transaction, withdraw: boolean): Generator<Op, void> {
    for (const op of tx) if (!isBeforeVirtualServers(op) && !serves(op, this.#undenied)) yield op;
    for (const key of this.#undenied) {
      const virtualServer = plan.virtualServer(key)?.virtualServer;
      if (virtualServer === undefined) continue;
      this.#fail({ kind: 'add-virtual-server', virtualServer }, 'WITHHELD', WITHHELD);
      const { address, port, protocol } = virtualServer;
      if (withdraw) yield { kind: 'delete-virtual-server', id: { address, port, protocol } };
    }
  }

  /** Fills sets that could not grow, except deny sets, up to their capacity. Returns the missing deny entries. */
  async #withoutGrowing(notGrown: readonly GrowSet[]): Promise<AddEntry[]> {
    if (notGrown.length === 0) return [];
    const observed = new Map((await this.#kernel.getSets()).map((set) => [set.name, set]));
    const others: AddEntry[] = [];
    const denies: AddEntry[] = [];
    for (const { set, entries } of notGrown) {
      const found = observed.get(set.name);
      const usable = found !== undefined && hasSameType(found, set);
      const present = new Set(usable ? found.entries.map(ipSetEntryKey) : []);
      const denying = DENY_SETS.has(set.name);
      for (const entry of entries) {
        if (present.has(ipSetEntryKey(entry))) {
          if (denying) this.#note(entry, this.#denied);
        } else if (denying) denies.push({ kind: 'add-entry', set, entry });
        else if (usable) others.push({ kind: 'add-entry', set, entry });
      }
    }
    await this.apply(others);
    return denies;
  }

  /** Adds deny entries to sets of the right type only: another type may accept them with another meaning. */
  async #writeDenies(denies: readonly AddEntry[]): Promise<void> {
    if (denies.length === 0) return;
    const found = await this.#kernel.findSets([...new Set(denies.map(({ set }) => set.name))]);
    const writable: AddEntry[] = [];
    for (const op of denies) {
      const set = found.get(op.set.name);
      if (set === undefined) this.#refuse(op, 'ENOENT', 'the set does not exist');
      else if (hasSameType(set, op.set)) writable.push(op);
      else this.#refuse(op, 'WRONG_TYPE', `the set has type ${set.type} of IPv${set.family}`);
    }
    const failed = await this.apply(writable);
    for (const op of writable) this.#note(op.entry, failed.has(op) ? this.#undenied : this.#denied);
  }

  #refuse(op: AddEntry, code: string, text: string): void {
    this.#note(op.entry, this.#undenied);
    this.#fail(op, code, text);
  }

  #fail(op: Op, code: string, text: string): void {
    this.failures.push({ op, errno: 0, code, text });
  }

  #note(entry: AddEntry['entry'], keys: Set<VirtualServerKey>): void {
    if (entry.type === 'hash:ip,port') keys.add(virtualServerKey(entry));
  }

  #isDenied(entry: AddEntry['entry']): boolean {
    return entry.type === 'hash:ip,port' && this.#denied.has(virtualServerKey(entry));
  }
}

const WITHHELD = 'not served, because its source ranges could not be enforced';

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
