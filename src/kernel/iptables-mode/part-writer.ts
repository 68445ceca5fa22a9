import { errorText } from '../../base/text/error-text.ts';
import type { Protocol } from '../../base/protocol.ts';
import type { Op } from '../../state/op.ts';
import type { OpFailure, Outcome } from '../../state/outcome.ts';
import { mayBeOfRules } from '../iptables/iptables-failure.ts';
import { KernelError } from '../kernel-error.ts';
import type { ProxyState, ServicePortKey } from './proxy-state.ts';
import { type Unit, scriptParts } from './script-parts.ts';
import { type StateOp, touchedPorts, unitsOf } from './state-change.ts';

/** Writes of one transaction. Beyond that, what is left fails, to be tried again later. */
const MOST_WRITES = 1_000;

/**
 * How many service ports that were refused before may be refused again in one transaction. The others wait for a later one, so that
 * the changes of other Services need not wait for them.
 */
const MOST_REFUSED_AGAIN = 8;

/**
 * How many refused service ports are remembered. Those of deleted Services are never tried again, so they are the first that
 * others displace.
 */
const MOST_REMEMBERED = 65_536;

/** How an attempt to write operations ended. */
export interface Attempt {
  /** Operations that are not possible, whatever is written. */
  readonly failures: readonly OpFailure[];
  /** Undefined if the others were written. */
  readonly refusal: Refusal | undefined;
}

export interface Refusal {
  readonly error: unknown;
  /** Whether the tables have been read or known better since, so that another attempt may succeed. */
  readonly isKnownBetter: boolean;
  /** Returns those to which the refused lines belong: all, if they belong to none; nothing, if no line is named. */
  readonly atFault: (units: readonly Unit[]) => readonly Unit[];
}

/** The tables of one family, as far as operations need them. */
export interface WritableTables {
  state(): Promise<ProxyState>;
  /** @param wasRefused before, so that the tables need not be read again */
  attempt(ops: readonly StateOp[], wasRefused: boolean): Promise<Attempt>;
  /** Whether anything can be written. */
  canWrite(): Promise<boolean>;
  /** How many lines one script may have. */
  mostLines(): Promise<number>;
}

interface Part {
  readonly ops: readonly StateOp[];
  readonly wasRefused: boolean;
}

/**
 * Writes operations, together if possible. If iptables refuses some, they are left out, so that they do not stop the others;
 * from then on, they are written after the others, each service port on its own, a few in each transaction.
 */
export class PartWriter {
  readonly #tables: WritableTables;
  /** In the order in which they are tried again. */
  readonly #refused = new Set<ServicePortKey>();

  readonly #mostRemembered: number;

  constructor(tables: WritableTables, mostRemembered = MOST_REMEMBERED) {
    this.#tables = tables;
    this.#mostRemembered = mostRemembered;
  }

  async write(ops: readonly StateOp[]): Promise<Outcome> {
    const failures: OpFailure[] = [];
    const fail = (failed: readonly StateOp[], error: unknown): void => {
      for (const failure of failuresOf(failed, error)) failures.push(failure);
    };
    let queue = await this.#firstParts(ops);
    let canWrite: boolean | undefined;
    let refusedAgain = 0;
    for (let writes = 1; ; writes++) {
      const [part, ...rest] = queue;
      if (part === undefined) return { failures };
      if (part.wasRefused && refusedAgain === MOST_REFUSED_AGAIN) {
        fail(
          queue.flatMap(({ ops: left }) => left),
          new KernelError('apply', 'DEFERRED', 'it was refused before, and will be tried again in turn'),
        );
        return { failures };
      }
      const { failures: impossible, refusal } = await this.#tables.attempt(part.ops, part.wasRefused);
      for (const failure of impossible) failures.push(failure);
      queue = rest;
      if (refusal === undefined) {
        await this.#forgive(part.ops);
        continue;
      }
      if (part.wasRefused) refusedAgain += 1;
      const left: Part = { ...part, ops: without(part.ops, impossible) };
      const mayBeOfSome = writes < MOST_WRITES && mayBeOfRules(refusal.error);
      if (!mayBeOfSome || !(canWrite ??= await this.#tables.canWrite())) {
        for (const { ops: failed } of [left, ...rest]) fail(failed, refusal.error);
        return { failures, stopped: errorText(refusal.error) };
      }
      if (refusal.isKnownBetter) queue = [left, ...rest];
      else {
        const { refused, apart } = await this.#divide(left, refusal);
        fail(refused.flat(), refusal.error);
        // Larger parts first: most of what is not at fault is soon in force.
        queue = [...rest, ...apart].sort((a, b) => Number(a.wasRefused) - Number(b.wasRefused));
      }
    }
  }

  async #firstParts(ops: readonly StateOp[]): Promise<readonly Part[]> {
    const mostLines = await this.#tables.mostLines();
    if (this.#refused.size === 0 && mostLines === Infinity) return [{ ops, wasRefused: false }];
    const state = await this.#tables.state();
    const units = unitsOf(state, ops);
    const partsOf = (some: readonly Unit[]): readonly Part[] =>
      Array.from(scriptParts(some, state, mostLines), (part) => ({ ops: part, wasRefused: false }));
    if (this.#refused.size === 0) return partsOf(units);
    const wasRefused = (unit: Unit): boolean => [...touchedPorts(state, unit)].some((port) => this.#refused.has(port));
    const { known = [], others = [] } = Object.groupBy(units, (unit) => (wasRefused(unit) ? 'known' : 'others'));
    const turns = new Map(Array.from(this.#refused, (port, turn) => [port, turn]));
    const turnOf = (unit: Unit): number => {
      let first = Infinity;
      for (const port of touchedPorts(state, unit)) first = Math.min(first, turns.get(port) ?? Infinity);
      return first;
    };
    const inTurn = known.map((unit) => ({ unit, turn: turnOf(unit) })).sort((a, b) => a.turn - b.turn);
    return [...partsOf(others), ...inTurn.map(({ unit }) => ({ ops: unit, wasRefused: true }))];
  }

  /** Divides refused operations into those that are known to be at fault, and parts that are to be tried. */
  async #divide({ ops, wasRefused }: Part, { atFault }: Refusal) {
    const state = await this.#tables.state();
    const units = unitsOf(state, ops);
    const refused = units.length < 2 ? units : atFault(units);
    this.#remember(refused.flatMap((unit) => [...touchedPorts(state, unit)]));
    const left = units.filter((unit) => !refused.includes(unit));
    const groups = refused.length > 0 ? apartFrom(refused, left) : halves(left);
    const apart = groups.filter(({ length }) => length > 0).map((group): Part => ({ ops: group.flat(), wasRefused }));
    return { refused, apart };
  }

  #remember(ports: readonly ServicePortKey[]): void {
    for (const port of ports) {
      this.#refused.delete(port);
      this.#refused.add(port);
    }
    for (const port of this.#refused) {
      if (this.#refused.size <= this.#mostRemembered) break;
      this.#refused.delete(port);
    }
  }

  async #forgive(ops: readonly StateOp[]): Promise<void> {
    if (this.#refused.size === 0) return;
    for (const port of touchedPorts(await this.#tables.state(), ops)) this.#refused.delete(port);
  }
}

/** What is refused is usually refused for each Service of its protocol, whose match the kernel lacks. */
function apartFrom(refused: readonly Unit[], left: readonly Unit[]): readonly (readonly Unit[])[] {
  const protocols = new Set(refused.map(protocolOf));
  return [
    left.filter((unit) => !protocols.has(protocolOf(unit))),
    left.filter((unit) => protocols.has(protocolOf(unit))),
  ];
}

function halves(units: readonly Unit[]): readonly (readonly Unit[])[] {
  const sorted = units.toSorted((a, b) => (protocolOf(a) ?? '').localeCompare(protocolOf(b) ?? ''));
  const half = Math.ceil(sorted.length / 2);
  return [sorted.slice(0, half), sorted.slice(half)];
}

function protocolOf(unit: Unit): Protocol | undefined {
  for (const op of unit) {
    if ('virtualServer' in op) return op.virtualServer.protocol;
    if ('id' in op) return op.id.protocol;
  }
  return undefined;
}

function without(ops: readonly StateOp[], failures: readonly OpFailure[]): readonly StateOp[] {
  if (failures.length === 0) return ops;
  const failed = new Set<Op>(failures.map(({ op }) => op));
  return ops.filter((op) => !failed.has(op));
}

export function failuresOf(ops: readonly StateOp[], error: unknown): readonly OpFailure[] {
  const code = error instanceof KernelError ? error.code : 'FAILED';
  return ops.map((op) => ({ op, errno: 0, code, text: errorText(error) }));
}
