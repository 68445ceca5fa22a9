import type { Op, OpKind } from './op.ts';

/**
 * The order in which a transaction is applied, so that no packet sees a partially applied state. A virtual server is
 * added before its address is bound (otherwise the host would reject its packets) and deleted after its address is
 * unbound. A set entry is added before the virtual server whose packets it marks or denies. A local route is added
 * before the addresses that it replaces are unbound, and deleted after the addresses that replace it are bound.
 */
export const PHASES = [
  'create-set',
  'grow-set',
  'add-entry',
  'add-virtual-server',
  'edit-virtual-server',
  'add-real-server',
  'edit-real-server',
  'add-route',
  'bind-address',
  'unbind-address',
  'delete-route',
  'delete-real-server',
  'delete-virtual-server',
  'delete-entry',
  'destroy-set',
] as const satisfies readonly OpKind[];
type Phase = (typeof PHASES)[number];

/** Operations sorted by PHASES. Operations of one phase keep their original order. */
export interface Transaction {
  readonly ops: readonly Op[];
}

/** Sorts the operations by phase. */
export function transaction(ops: readonly Op[]): Transaction {
  const steps = transactionInSteps(ops);
  for (;;) {
    const { done, value } = steps.next();
    if (done === true) return value;
  }
}

/** Like transaction(), but yields regularly, because a first sync may have a hundred thousand operations. */
export function* transactionInSteps(ops: readonly Op[]): Generator<void, Transaction> {
  const phases = Object.fromEntries(PHASES.map((kind) => [kind, new Array<Op>()])) as Record<Phase, Op[]>;
  for (const [at, op] of ops.entries()) {
    // A kind of operation that is missing in PHASES is a compile error.
    phases[op.kind].push(op);
    if (at % OPS_A_STEP === 0) yield;
  }
  return { ops: Object.values(phases).flat() };
}

const OPS_A_STEP = 1_024;
