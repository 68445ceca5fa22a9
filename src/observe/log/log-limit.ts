import { RateLimit } from '../../base/rate-limit.ts';

/** Lines of one kind that are written at once; every ten seconds, one more. */
const LINES = { burst: 30, qps: 0.1 };

/** Lines that were not written. */
export interface HeldLines<T> {
  readonly count: number;
  readonly last: T;
}

interface Kind<T> {
  readonly limit: RateLimit;
  held: HeldLines<T> | undefined;
}

/** Limits how many lines of one kind are written, so that a cause that repeats cannot fill the log. Counts the others. */
export class LogLimit<T> {
  readonly #now: () => number;
  readonly #kinds = new Map<string, Kind<T>>();

  /** @param now a monotonic time in milliseconds */
  constructor(now: () => number) {
    this.#now = now;
  }

  /** Returns whether the line may be written. Otherwise, it is held: counted until `release`. */
  allows(name: string, line: T): boolean {
    const kind = this.#kindOf(name);
    if (kind.held === undefined && this.#passes(kind)) return true;
    kind.held = { count: (kind.held?.count ?? 0) + 1, last: line };
    return false;
  }

  /**
   * Returns the lines held since the last call, of each kind of which a line may be written now: the one that reports
   * them.
   */
  release(): HeldLines<T>[] {
    const released: HeldLines<T>[] = [];
    for (const kind of this.#kinds.values()) {
      if (kind.held === undefined || !this.#passes(kind)) continue;
      released.push(kind.held);
      kind.held = undefined;
    }
    return released;
  }

  /** Whether any lines are held. */
  get holds(): boolean {
    for (const { held } of this.#kinds.values()) if (held !== undefined) return true;
    return false;
  }

  #passes({ limit }: Kind<T>): boolean {
    const now = this.#now();
    const passes = limit.waitMs(now) === 0;
    if (passes) limit.take(now);
    return passes;
  }

  /** The number of kinds is that of the statements that log, so none is ever removed. */
  #kindOf(name: string): Kind<T> {
    const kind = this.#kinds.get(name) ?? { limit: new RateLimit(LINES, this.#now()), held: undefined };
    this.#kinds.set(name, kind);
    return kind;
  }
}
