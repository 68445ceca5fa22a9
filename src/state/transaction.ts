import type { Op, OpKind } from './op.ts';

/**
 * The order in which a transaction is applied, so that no packet sees a partially applied state. A virtual server is
 * added before its address is bound (otherwise the host would reject its packets) and deleted after its address is
 * unbound. A set entry is added before the virtual server whose packets it marks or denies. A local route is added
 * before the addresses that it replaces are unbound, and deleted after the addresses that replace it are bound.
 */
const STAGES = {
  'add-sets': ['create-set', 'grow-set', 'add-entry'],
  'add-servers': ['add-virtual-server', 'edit-virtual-server', 'add-real-server', 'edit-real-server'],
  addresses: ['add-route', 'bind-address', 'unbind-address', 'delete-route'],
  'delete-servers': ['delete-real-server', 'delete-virtual-server'],
  'delete-sets': ['delete-entry', 'destroy-set'],
} as const satisfies Record<string, readonly OpKind[]>;

/** Consecutive phases that change the same kind of object. */
type Stage = keyof typeof STAGES;
type Phase = (typeof STAGES)[Stage][number];
type OpOf<K extends OpKind> = Extract<Op, { readonly kind: K }>;

export const PHASES: readonly Phase[] = Object.values(STAGES).flat();

/** Operations grouped by phase. Operations of one phase keep the order in which they were added. */
export class Transaction implements Iterable<Op> {
  // A kind of operation that is missing in STAGES is a compile error.
  readonly #phases: Partial<Record<Phase, Op[]>> = {};
  #size = 0;

  constructor(ops: Iterable<Op> = []) {
    this.add(ops);
  }

  get size(): number {
    return this.#size;
  }

  push(op: Op): void {
    (this.#phases[op.kind] ??= []).push(op);
    this.#size += 1;
  }

  add(ops: Iterable<Op>): void {
    for (const op of ops) this.push(op);
  }

  of<K extends Phase>(phase: K): readonly OpOf<K>[] {
    return (this.#phases[phase] ?? []) as unknown as readonly OpOf<K>[];
  }

  /** Returns the operations of a stage, in order of their phases. */
  stage<S extends Stage>(stage: S): readonly OpOf<(typeof STAGES)[S][number]>[] {
    const phases: readonly Phase[] = STAGES[stage];
    const [first = [], ...more] = phases.map((phase) => this.of(phase)).filter(({ length }) => length > 0);
    return (more.length === 0 ? first : first.concat(...more)) as OpOf<(typeof STAGES)[S][number]>[];
  }

  filter(keep: (op: Op) => boolean): Transaction {
    const kept = new Transaction();
    for (const op of this) if (keep(op)) kept.push(op);
    return kept;
  }

  [Symbol.iterator](): IterableIterator<Op> {
    // A generator would take ten times as long.
    return PHASES.flatMap((phase): Op[] => this.#phases[phase] ?? []).values();
  }
}
