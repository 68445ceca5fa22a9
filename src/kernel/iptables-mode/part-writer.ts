import { boundedParts } from '../../base/bounded-parts.ts';
import type { Protocol } from '../../base/protocol.ts';
import { type OpFailure, type Outcome, type Refusal, failureOf } from '../../state/outcome.ts';
import { type Division, bisect, halves } from '../bisect.ts';
import { mayBeCausedByRules } from '../iptables/iptables-failure.ts';
import type { ProxyState } from './proxy-state.ts';
import { RefusedPorts } from './refused-ports.ts';
import { type StateOp, type Unit, linesOf, unitsOf } from './state-change.ts';

/** Writes of one transaction. Beyond that, what is left fails, to be tried again later. */
const MOST_WRITES = 1_000;

/**
 * How many service ports that were refused before may be refused again in one transaction. The others wait for a later one, so that
 * the changes of other Services need not wait for them.
 */
const MOST_REFUSED_AGAIN = 8;

export interface WriteAttempt {
  /** Operations that are not possible, whatever is written. */
  readonly failures: readonly OpFailure[];
  /** Undefined if the others were written. */
  readonly refusal: RuleRefusal | undefined;
}

export interface RuleRefusal extends Refusal {
  /** Whether the tables have been read or known better since, so that another attempt may succeed. */
  readonly isKnownBetter: boolean;
  /** Returns those to which the refused lines belong: all, if they belong to none; nothing, if no line is named. */
  readonly atFault: (units: readonly Unit[]) => readonly Unit[];
}

const DEFERRED: RuleRefusal = {
  errno: 0,
  code: 'DEFERRED',
  text: 'it was refused before, and will be tried again in turn',
  isKnownBetter: false,
  atFault: (units) => units,
};

/** The tables of one family, as far as operations need them. */
export interface WritableTables {
  state(): Promise<ProxyState>;
  /** @param wasRefused before, so that the tables need not be read again */
  attempt(ops: readonly StateOp[], wasRefused: boolean): Promise<WriteAttempt>;
  /** Whether anything can be written. */
  canWrite(): Promise<boolean>;
  /** How many lines one script may have. */
  mostLines(): Promise<number>;
}

/**
 * Writes operations, together if possible. If iptables refuses some, they are left out, so that they do not stop the others;
 * from then on, they are written after the others, each service port on its own, a few in each transaction.
 */
export class PartWriter {
  readonly #tables: WritableTables;
  readonly #refused: RefusedPorts;

  constructor(tables: WritableTables, refused = new RefusedPorts()) {
    this.#tables = tables;
    this.#refused = refused;
  }

  async write(ops: readonly StateOp[]): Promise<Outcome> {
    const state = await this.#tables.state();
    const { known, others } = this.#refused.apart(unitsOf(state, ops), state);
    const parts = boundedParts(others, (unit) => linesOf(unit, state), await this.#tables.mostLines());
    const failures: OpFailure[] = [];
    let [writes, refusedAgain] = [0, 0];
    let canWrite: boolean | undefined;
    const attempt = async (units: readonly Unit[], wasRefused: boolean): Promise<RuleRefusal | undefined> => {
      if (refusedAgain === MOST_REFUSED_AGAIN) return DEFERRED;
      writes += 1;
      const { failures: impossible, refusal } = await this.#tables.attempt(units.flat(), wasRefused);
      if (refusal?.isKnownBetter === true && !(await isOfAll(refusal))) return await attempt(units, wasRefused);
      if (refusal !== undefined) {
        if (wasRefused) refusedAgain += 1;
        return refusal;
      }
      for (const failure of impossible) failures.push(failure);
      this.#refused.forgive(units, await this.#tables.state());
      return undefined;
    };
    const isOfAll = async (refusal: RuleRefusal): Promise<boolean> =>
      writes >= MOST_WRITES || !mayBeCausedByRules(refusal) || !(canWrite ??= await this.#tables.canWrite());
    const writing = (wasRefused: boolean) => ({
      write: (units: readonly Unit[]) => attempt(units, wasRefused),
      isOfAll,
      divide,
      inOrder: false,
    });
    const first = await bisect(parts, writing(false));
    const { stoppedBy, refused } =
      first.stoppedBy === undefined
        ? await bisect(
            known.map((unit) => [unit]),
            writing(true),
          )
        : { stoppedBy: first.stoppedBy, refused: [{ units: known, refusal: first.stoppedBy }] };
    for (const { units, refusal } of [...first.refused, ...refused]) {
      for (const op of units.flat()) failures.push(failureOf(op, refusal));
      if (refusal !== stoppedBy) this.#refused.remember(units, await this.#tables.state());
    }
    return {
      failures,
      ...(stoppedBy === undefined || stoppedBy === DEFERRED ? {} : { stopped: stoppedBy.text }),
    };
  }
}

/** Divides units by protocol, because usually the kernel lacks a match that all Services of a protocol need. */
function divide(units: readonly Unit[], refusal: RuleRefusal): Division<Unit> {
  const atFault = refusal.atFault(units);
  if (atFault.length === 0) {
    return halves(units.toSorted((a, b) => (protocolOf(a) ?? '').localeCompare(protocolOf(b) ?? '')));
  }
  const left = units.filter((unit) => !atFault.includes(unit));
  const protocols = new Set(atFault.map(protocolOf));
  return {
    atFault,
    parts: [
      left.filter((unit) => !protocols.has(protocolOf(unit))),
      left.filter((unit) => protocols.has(protocolOf(unit))),
    ],
  };
}

function protocolOf(unit: Unit): Protocol | undefined {
  for (const op of unit) {
    if ('virtualServer' in op) return op.virtualServer.protocol;
    if ('id' in op) return op.id.protocol;
  }
  return undefined;
}
