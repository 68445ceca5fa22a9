import { MODES } from '../../base/proxy-mode.ts';
import type { IpAddress } from '../../base/ip.ts';
import { diffAddresses } from '../../diff/address-diff.ts';
import { diffIpSet } from '../../diff/ip-set-diff.ts';
import { READING_LEDGER } from '../../diff/drain.ts';
import { type WantedVirtualServer, diffVirtualServer } from '../../diff/virtual-server-diff.ts';
import type { FoundDifference } from '../../explain/difference/difference-reply.ts';
import { opsByOwner, ownersIn } from '../../explain/difference/op-owner.ts';
import { plannedRules } from '../../explain/plan-operations.ts';
import type { KernelReader, ObservedIpSet } from '../../kernel/kernel.ts';
import { Yielder } from '../../base/yielder.ts';
import { SET_ROLES, plannedSet } from '../../plan/ipvs/set-names.ts';
import { TWIN_PREFIX, hasSameType } from '../../state/ip-set.ts';
import { type Op, formatOp } from '../../state/op.ts';
import { Transaction } from '../../state/transaction.ts';
import { type VirtualServerKey, virtualServerKey } from '../../state/virtual-server.ts';
import { differingRoutes, forwardingNotes } from '../node/node-difference.ts';
import { type NodeSettings, differingSettings } from '../node/node-settings.ts';
import { Ownership } from '../node/ownership.ts';
import { readVirtualServers } from '../sync/read-virtual-servers.ts';
import type { SyncParts } from '../sync/sync-parts.ts';

/** What a full check would write. */
export interface Difference extends FoundDifference {
  /** The first operations; those of `parts`. */
  readonly ops: readonly Op[];
}

type State = Pick<SyncParts, 'config' | 'desired' | 'order' | 'excluded' | 'written' | 'clock'>;

export interface DifferenceParts extends State {
  readonly kernel: KernelReader;
  /** Node addresses at which virtual servers of node ports are ours although no set names them (see Ownership). */
  readonly unmarkedAddresses?: () => readonly IpAddress[];
}

/** Virtual servers that are read and compared at a time. A sync that begins meanwhile waits for one such batch. */
const BATCH = 64;
/** Bounds memory and the reply: if everything is missing, the first operations tell as much as all. */
const MOST_OPS = 2_000;

/**
 * Compares the kernel with the plan as a full check does, but writes nothing and may run beside a sync. It therefore
 * compares twice if it finds a difference, and returns the operations of both times: a change that is being written is
 * found once at most.
 */
export async function readDifference(
  parts: DifferenceParts,
  settings: NodeSettings,
  signal: AbortSignal,
  most = MOST_OPS,
): Promise<Difference> {
  const first = await compare(parts, signal, most);
  const found = first.size === 0 ? first : (await compare(parts, signal, most)).alsoIn(first);
  signal.throwIfAborted();
  const { config, desired } = parts;
  const owned = opsByOwner(found.ops, ownersIn(desired.plan));
  const preview = await parts.kernel.preview(
    plannedRules(config),
    owned.map(({ ops }) => ops),
  );
  return {
    ops: found.ops,
    parts: owned.map(({ service }, at) => ({ service, commands: preview.parts[at] ?? [] })),
    more: found.more,
    rules: preview.rules,
    settings: (await differingSettings(parts.kernel, settings)).map(({ command }) => command),
    notes: await forwardingNotes(parts.kernel, parts.desired.plan),
  };
}

/** Returns the operations that bring these virtual servers to the plan; none for those in force. */
export async function differenceOf(
  { kernel, order, clock }: Pick<DifferenceParts, 'kernel' | 'order' | 'clock'>,
  wanted: readonly WantedVirtualServer[],
): Promise<Map<VirtualServerKey, readonly Op[]>> {
  const found = await readVirtualServers(
    kernel,
    wanted.map(({ virtualServer }) => virtualServer),
  );
  const context = { order, ledger: READING_LEDGER, now: clock.now() };
  return new Map(
    wanted.map((each) => {
      const key = virtualServerKey(each.virtualServer);
      const tx = new Transaction();
      diffVirtualServer(each.virtualServer, each, found.get(key), context, tx);
      return [key, [...tx]];
    }),
  );
}

/** The first operations found, and the number of the others. */
class Findings {
  readonly ops: Op[] = [];
  more = 0;
  readonly #most: number;

  constructor(most: number) {
    this.#most = most;
  }

  get size(): number {
    return this.ops.length + this.more;
  }

  add(ops: Iterable<Op>): void {
    for (const op of ops) {
      if (this.ops.length < this.#most) this.ops.push(op);
      else this.more += 1;
    }
  }

  /** Keeps the operations that `other` has too; those that exceed its bound are unknown, and kept. */
  alsoIn(other: Findings): Findings {
    const both = new Findings(this.#most);
    const known = new Set(other.ops.map(formatOp));
    both.add(other.more > 0 ? this.ops : this.ops.filter((op) => known.has(formatOp(op))));
    both.more += Math.min(this.more, other.more);
    return both;
  }
}

async function compare(parts: DifferenceParts, signal: AbortSignal, most: number): Promise<Findings> {
  const { kernel, config, desired, excluded, written } = parts;
  const { plan } = desired;
  const yielder = new Yielder();
  const findings = new Findings(most);
  await kernel.forgetReadings();
  const sets = await kernel.getSets();
  await compareSets(parts, sets, findings, yielder);
  signal.throwIfAborted();

  const bound = await kernel.getBoundAddresses();
  findings.add(await yielder.finish(diffAddresses(plan.addresses(), bound)));
  let batch: WantedVirtualServer[] = [];
  for (const wanted of plan.virtualServers()) {
    if (batch.push(wanted) < BATCH) continue;
    for (const ops of (await differenceOf(parts, batch)).values()) findings.add(ops);
    batch = [];
    await yielder.yieldIfDue();
    signal.throwIfAborted();
  }
  for (const ops of (await differenceOf(parts, batch)).values()) findings.add(ops);

  const boundAddresses = bound.map(({ address }) => address);
  const interfaceAddresses = parts.unmarkedAddresses?.() ?? [];
  const ownership = new Ownership({ sets, boundAddresses, interfaceAddresses, excluded });
  for (const id of await kernel.getVirtualServers()) {
    const key = virtualServerKey(id);
    const owned = MODES[kernel.mode].ownsAll || ownership.owns(id, plan.wantsAddress(id.address) || written.has(key));
    if (owned && plan.virtualServer(key) === undefined) findings.add([{ kind: 'delete-virtual-server', id }]);
    if (yielder.due) await yielder.yieldIfDue();
  }
  findings.add(await differingRoutes(kernel, config));
  return findings;
}

async function compareSets(
  { config, desired: { plan } }: DifferenceParts,
  sets: readonly ObservedIpSet[],
  findings: Findings,
  yielder: Yielder,
): Promise<void> {
  const byName = new Map(sets.map((set) => [set.name, set]));
  for (const family of config.families) {
    for (const role of SET_ROLES) {
      const planned = plan.entries(role, family);
      const set = plannedSet(role, family, planned.size);
      const found = byName.get(set.name);
      const isWrong = found !== undefined && !hasSameType(set, found);
      if (isWrong) findings.add([{ kind: 'destroy-set', set: found }]);
      findings.add(await yielder.finish(diffIpSet(set, planned, isWrong ? undefined : found)));
    }
  }
  for (const set of sets) if (set.name.startsWith(TWIN_PREFIX)) findings.add([{ kind: 'destroy-set', set }]);
}
