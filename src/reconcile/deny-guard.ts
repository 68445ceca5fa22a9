import type { Kernel } from '../kernel/kernel.ts';
import { familyOf } from '../base/ip.ts';
import type { NodePlan } from '../plan/node-plan.ts';
import type { PlannedEntry } from '../plan/service-plan.ts';
import { plannedSet, setName } from '../plan/set-names.ts';
import { ipSetEntryKey } from '../state/ip-set.ts';
import type { Op } from '../state/op.ts';
import type { OpFailure, Outcome } from '../state/outcome.ts';
import { type Transaction, transaction } from '../state/transaction.ts';
import { type VirtualServerId, type VirtualServerKey, virtualServerKey } from '../state/virtual-server.ts';

const DENY_SETS: ReadonlySet<string> = new Set([setName('LOAD-BALANCER-FW', 4), setName('LOAD-BALANCER-FW', 6)]);

/** The part of the plan that tells which virtual servers have source ranges. */
export type RestrictedPlan = Pick<NodePlan, 'entries' | 'virtualServer'>;

type GrowSet = Extract<Op, { kind: 'grow-set' }>;
type AddEntry = Extract<Op, { kind: 'add-entry' }>;

/**
 * Applies a transaction so that no load balancer IP with source ranges is ever open to everyone. All code that writes
 * virtual servers must use it. A virtual server with source ranges and its real servers are added only after this
 * transaction wrote its deny entry to a set of the right type. If that fails, neither is added; `withdraw` also deletes
 * it.
 *
 * If a set cannot grow, entries are added up to its current capacity: only the others fail.
 */
export async function applyGuarded(
  kernel: Kernel,
  plan: RestrictedPlan,
  tx: Transaction,
  { withdraw }: { readonly withdraw: boolean },
): Promise<Outcome> {
  const first = tx.ops.findIndex((op) => !isBeforeVirtualServers(op));
  const sets = first < 0 ? tx.ops : tx.ops.slice(0, first);
  const added = restrictedAdditions(plan, tx.ops);
  if (added.length === 0 && !sets.some((op) => op.kind === 'grow-set' || isDeny(op))) return kernel.apply(tx);

  const guard = new DenyGuard(kernel);
  await guard.writeSets(sets, added);
  const rest = tx.ops.slice(sets.length);
  await guard.apply(guard.withoutUndenied(plan, rest, withdraw));
  return guard.outcome;
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

/** Returns operations that add the deny entry of each virtual server that is added or gets a real server. */
function restrictedAdditions(plan: RestrictedPlan, ops: readonly Op[]): AddEntry[] {
  if (plan.entries('LOAD-BALANCER-FW', 4).size + plan.entries('LOAD-BALANCER-FW', 6).size === 0) return [];
  const found: AddEntry[] = [];
  const seen = new Set<PlannedEntry>();
  for (const op of ops) {
    const id = op.kind === 'add-virtual-server' ? op.virtualServer : op.kind === 'add-real-server' ? op.id : undefined;
    const deny = id === undefined ? undefined : denyOf(plan, id);
    if (id === undefined || deny === undefined || seen.has(deny)) continue;
    seen.add(deny);
    const family = familyOf(id.address);
    const set = plannedSet('LOAD-BALANCER-FW', family, plan.entries('LOAD-BALANCER-FW', family).size);
    found.push({ kind: 'add-entry', set, entry: deny.entry });
  }
  return found;
}

class DenyGuard {
  readonly #kernel: Kernel;
  readonly #failures: OpFailure[] = [];
  /** Virtual servers whose deny entry is in the kernel. */
  readonly #denied = new Set<VirtualServerKey>();
  /** Virtual servers whose deny entry could not be written. */
  readonly #undenied = new Set<VirtualServerKey>();
  #attempted = 0;

  constructor(kernel: Kernel) {
    this.#kernel = kernel;
  }

  get outcome(): Outcome {
    return { attempted: this.#attempted, failures: this.#failures };
  }

  /** Applies the operations on sets, then the deny entries, including those of `added`. */
  async writeSets(sets: readonly Op[], added: readonly AddEntry[]): Promise<void> {
    const failed = await this.apply(sets.filter((op) => !isDeny(op)));
    const notGrown: GrowSet[] = [];
    for (const op of sets) {
      if (op.kind !== 'grow-set') continue;
      if (failed.has(op)) notGrown.push(op);
      else if (DENY_SETS.has(op.set.name)) for (const entry of op.entries) this.#note(entry, this.#denied);
    }
    const denies = [...sets.filter(isDeny), ...(await this.#withoutGrowing(notGrown))];
    const written = new Set(denies.map(({ entry }) => ipSetEntryKey(entry)));
    const more = added.filter(({ entry }) => !written.has(ipSetEntryKey(entry)) && !this.#isDenied(entry));
    await this.#writeDenies([...denies, ...more]);
  }

  /** Applies the operations and returns those that failed. */
  async apply(ops: readonly Op[]): Promise<ReadonlySet<Op>> {
    if (ops.length === 0) return new Set();
    const { attempted, failures } = await this.#kernel.apply({ ops });
    this.#attempted += attempted;
    for (const failure of failures) this.#failures.push(failure);
    return new Set(failures.map(({ op }) => op));
  }

  /** Removes operations that would serve a virtual server without its deny entry. With `withdraw`, also deletes it. */
  withoutUndenied(plan: RestrictedPlan, ops: readonly Op[], withdraw: boolean): readonly Op[] {
    for (const { entry } of restrictedAdditions(plan, ops)) {
      if (!this.#isDenied(entry)) this.#note(entry, this.#undenied);
    }
    if (this.#undenied.size === 0) return ops;
    const kept = ops.filter((op) => !serves(op, this.#undenied));
    const withdrawals: Op[] = [];
    for (const key of this.#undenied) {
      const planned = plan.virtualServer(key);
      if (planned === undefined) continue;
      this.#fail({ kind: 'add-virtual-server', virtualServer: planned.virtualServer }, 'WITHHELD', WITHHELD);
      const { address, port, protocol } = planned.virtualServer;
      if (withdraw) withdrawals.push({ kind: 'delete-virtual-server', id: { address, port, protocol } });
    }
    return withdrawals.length === 0 ? kept : transaction([...kept, ...withdrawals]).ops;
  }

  /** Adds non-deny entries up to the current capacity of the sets. Returns deny entries that are still missing. */
  async #withoutGrowing(notGrown: readonly GrowSet[]): Promise<AddEntry[]> {
    if (notGrown.length === 0) return [];
    const observed = new Map((await this.#kernel.getSets()).map((set) => [set.name, set]));
    const others: AddEntry[] = [];
    const denies: AddEntry[] = [];
    for (const { set, entries } of notGrown) {
      const have = observed.get(set.name);
      const usable = have?.type === set.type && have.family === set.family;
      const present = new Set(usable ? have.entries.map(ipSetEntryKey) : []);
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

  /** Checks set types first: the kernel may accept entries into a set of another type, with another meaning. */
  async #writeDenies(denies: readonly AddEntry[]): Promise<void> {
    if (denies.length === 0) return;
    const found = await this.#kernel.findSets([...new Set(denies.map(({ set }) => set.name))]);
    const writable: AddEntry[] = [];
    for (const op of denies) {
      const set = found.get(op.set.name);
      if (set?.type === op.set.type && set.family === op.set.family) writable.push(op);
      else if (set === undefined) this.#refuse(op, 'ENOENT', 'the set does not exist');
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
    this.#attempted += 1;
    this.#failures.push({ op, errno: 0, code, text });
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
