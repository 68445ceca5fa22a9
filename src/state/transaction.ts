import type { Op, OpKind } from './op.ts';

/**
 * The order in which a transaction is applied, so that no packet meets half a state. A virtual server is added before its
 * address is bound (else a packet would be refused by the host), and unbound before it is deleted; a set entry stands before
 * the virtual server whose packets it marks or denies. A local route stands before the addresses that it replaces go, and goes when the
 * addresses that replace it stand.
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

// A kind that is missing above would never be applied: this line stops compiling then.
type Missing = Exclude<OpKind, (typeof PHASES)[number]>;
const nothingMissing: [Missing] extends [never] ? true : Missing = true;
void nothingMissing;

const PHASE_INDEX = new Map<OpKind, number>(PHASES.map((kind, index) => [kind, index]));

/** Operations in the order of PHASES; within a phase in the order given. */
export interface Transaction {
  readonly ops: readonly Op[];
}

export const EMPTY_TRANSACTION: Transaction = { ops: [] };

/** Sorts the operations into phases (stable within a phase). */
export function transaction(ops: readonly Op[]): Transaction {
  const steps = transactionInSteps(ops);
  for (;;) {
    const { done, value } = steps.next();
    if (done === true) return value;
  }
}

/** As transaction(), with a pause now and then: for a first sync's hundred thousand operations. */
export function* transactionInSteps(ops: readonly Op[]): Generator<void, Transaction> {
  // Counted first, and then each put in its place: a list that grows is copied again and again, into memory that is new each time.
  const places = new Uint32Array(PHASES.length);
  for (let start = 0; start < ops.length; start += OPS_A_STEP) {
    for (const { kind } of ops.slice(start, start + OPS_A_STEP)) claimPlace(places, kind);
    yield;
  }
  let end = 0;
  for (const [phase, count] of places.entries()) {
    places[phase] = end;
    end += count;
  }
  const sorted = ops.slice();
  for (let start = 0; start < ops.length; start += OPS_A_STEP) {
    for (const op of ops.slice(start, start + OPS_A_STEP)) sorted[claimPlace(places, op.kind)] = op;
    yield;
  }
  return { ops: sorted };
}

/** The next place of the operation's phase. */
function claimPlace(places: Uint32Array, kind: OpKind): number {
  const phase = PHASE_INDEX.get(kind) ?? 0;
  const place = places[phase] ?? 0;
  places[phase] = place + 1;
  return place;
}

const OPS_A_STEP = 1_024;
