import type { IpAddress } from '../../base/ip.ts';
import { Yielder } from '../../base/yielder.ts';
import type { FoundDifference } from '../../explain/difference/difference-reply.ts';
import { opsByOwner, ownersIn } from '../../explain/difference/op-owner.ts';
import { plannedRules } from '../../explain/plan-operations.ts';
import { type Op, formatOp } from '../../state/op.ts';
import { type ComparisonOptions, type ComparisonParts, compareAll } from '../compare/comparison.ts';
import { creationOf } from '../compare/set-comparison.ts';
import { forwardingNotes } from '../node/node-difference.ts';
import { type NodeSettings, differingSettings } from '../node/node-settings.ts';

/** The difference between kernel and plan: what a full check would write. */
export interface Difference extends FoundDifference {
  /** The operations of `parts`: the first ones that were found. */
  readonly ops: readonly Op[];
}

export interface DifferenceParts extends ComparisonParts {
  /** As in ComparisonOptions. */
  readonly unmarkedAddresses?: () => readonly IpAddress[];
}

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
  const { kernel, desired, unmarkedAddresses = () => [] } = parts;
  const findings = new Findings(most);
  await kernel.forgetReadings(performance.now());
  const options: ComparisonOptions = {
    kind: 'read',
    without: new Set(),
    unmarkedAddresses: unmarkedAddresses(),
    wait: (read) => read,
    replace: (wrong) => {
      for (const set of wrong)
        findings.add([{ kind: 'destroy-set', set: set.found }, ...creationOf(set, desired.plan)]);
      return Promise.resolve([]);
    },
  };
  for await (const tx of compareAll(parts, options, await kernel.getSets(), new Yielder())) {
    findings.add(tx);
    signal.throwIfAborted();
  }
  return findings;
}
