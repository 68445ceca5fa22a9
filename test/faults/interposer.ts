import { setImmediate } from 'node:timers/promises';
import { KernelError } from '../../src/kernel/kernel-error.ts';
import type { Kernel } from '../../src/kernel/kernel.ts';
import type { OpFailure, Outcome } from '../../src/state/outcome.ts';
import { Transaction } from '../../src/state/transaction.ts';

/** A fault at a kernel call of the daemon. Calls are counted from `begin`. */
export type Trouble =
  /** Kills the daemon. In a transaction, `operations` of them are applied first. */
  | { readonly kind: 'kill'; readonly call: number; readonly operations: number }
  /** That call rejects. */
  | { readonly kind: 'fail'; readonly call: number }
  /** From that call on, the kernel refuses one in `every` operations. */
  | { readonly kind: 'refuse'; readonly call: number; readonly every: number };

/** Maximum number of event loop turns between two kernel calls of the same work. */
const QUIET_TURNS = 3;

const PASSED_ON = new Set<PropertyKey>(['counters', 'close', 'watchNode']);

/** Sits between a daemon and its kernel: runs acts between calls, makes calls fail, or kills the daemon in a call. */
export class Interposer {
  readonly kernel: Kernel;
  #calls = 0;
  #operations = 0;
  #underWay = 0;
  #dead = false;
  #trouble: Trouble | undefined;
  readonly #acts = new Map<number, (() => Promise<void>)[]>();
  readonly #onApplied: (transaction: Transaction, outcome: Outcome) => void;

  constructor(kernel: Kernel, onApplied: (transaction: Transaction, outcome: Outcome) => void = () => undefined) {
    this.#onApplied = onApplied;
    this.kernel = new Proxy(kernel, {
      get: (target, name) => {
        const value: unknown = Reflect.get(target, name, target);
        if (typeof value !== 'function') return value;
        if (PASSED_ON.has(name)) return value.bind(target) as unknown;
        return async (...args: unknown[]): Promise<unknown> => {
          const call = async (withArgs: unknown[]): Promise<unknown> =>
            (await Reflect.apply(value, target, withArgs)) as unknown;
          this.#underWay += 1;
          try {
            return await this.#interpose(String(name), call, args);
          } finally {
            this.#underWay -= 1;
          }
        };
      },
    });
  }

  get dead(): boolean {
    return this.#dead;
  }

  /** Restarts the count of calls. */
  begin(trouble: Trouble | undefined): void {
    this.#calls = 0;
    this.#operations = 0;
    this.#trouble = trouble;
  }

  /** Runs `act` before the call with this number (from 1). */
  before(call: number, act: () => Promise<void>): void {
    this.#acts.set(call, [...(this.#acts.get(call) ?? []), act]);
  }

  /** Ends the fault, and runs the remaining acts. */
  async end(): Promise<void> {
    this.#trouble = undefined;
    const left = [...this.#acts.values()].flat();
    this.#acts.clear();
    for (const act of left) await act();
  }

  /**
   * Waits until the daemon makes no more kernel calls, including those outside of syncs. Work that yields to the event
   * loop between two calls, which it does the more often the slower the machine is, has an Immediate pending.
   */
  async idle(): Promise<void> {
    for (let quiet = 0; quiet < QUIET_TURNS; quiet++) {
      await setImmediate();
      if (this.#underWay > 0 || process.getActiveResourcesInfo().includes('Immediate')) quiet = -1;
    }
  }

  async #interpose(method: string, call: (args: unknown[]) => Promise<unknown>, args: unknown[]): Promise<unknown> {
    const number = ++this.#calls;
    const acts = this.#acts.get(number) ?? [];
    this.#acts.delete(number);
    for (const act of acts) await act();
    const trouble = this.#trouble?.call === number ? this.#trouble : undefined;
    if (trouble?.kind === 'fail') throw new KernelError(method, 'EBUSY', `${method} was made to fail`);
    if (trouble?.kind === 'kill') {
      this.#dead = true;
      if (method === 'apply') await call([new Transaction([...(args[0] as Transaction)].slice(0, trouble.operations))]);
    }
    if (this.#dead) throw new KernelError(method, 'KILLED', `killed at ${method}`);
    if (method !== 'apply') return await call(args);
    const transaction = args[0] as Transaction;
    const outcome = await this.#apply(transaction, call);
    this.#onApplied(transaction, outcome);
    return outcome;
  }

  async #apply(tx: Transaction, call: (args: unknown[]) => Promise<unknown>): Promise<Outcome> {
    const trouble = this.#trouble;
    if (trouble?.kind !== 'refuse' || trouble.call > this.#calls) return (await call([tx])) as Outcome;
    const refused = new Set([...tx].filter(() => ++this.#operations % trouble.every === 0));
    const failures = Array.from(refused, (op): OpFailure => ({ op, errno: 12, code: 'ENOMEM', text: 'made to fail' }));
    const done = (await call([tx.filter((op) => !refused.has(op))])) as Outcome;
    return { failures: [...failures, ...done.failures] };
  }
}
