/** Lines of one kind that are written at once; each time REFILL_MS pass, one more. */
const BURST = 30;
const REFILL_MS = 10_000;

/** Lines that were not written. */
export interface HeldLines<T> {
  readonly count: number;
  readonly last: T;
}

interface Kind<T> {
  /** The number of lines that may be written, as of `at`. */
  lines: number;
  at: number;
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
    if (kind.held === undefined && kind.lines >= 1) {
      kind.lines -= 1;
      return true;
    }
    kind.held = { count: (kind.held?.count ?? 0) + 1, last: line };
    return false;
  }

  /**
   * Returns the lines held since the last call, of each kind of which a line may be written now: the one that reports
   * them.
   */
  release(): HeldLines<T>[] {
    const released: HeldLines<T>[] = [];
    for (const name of this.#kinds.keys()) {
      const kind = this.#kindOf(name);
      if (kind.held === undefined || kind.lines < 1) continue;
      released.push(kind.held);
      kind.held = undefined;
      kind.lines -= 1;
    }
    return released;
  }

  /** Whether any lines are held. */
  get holds(): boolean {
    for (const { held } of this.#kinds.values()) if (held !== undefined) return true;
    return false;
  }

  /** The number of kinds is that of the statements that log, so none is ever removed. */
  #kindOf(name: string): Kind<T> {
    const now = this.#now();
    const known = this.#kinds.get(name);
    if (known !== undefined) {
      known.lines = Math.min(BURST, known.lines + (now - known.at) / REFILL_MS);
      known.at = now;
      return known;
    }
    const kind: Kind<T> = { lines: BURST, at: now, held: undefined };
    this.#kinds.set(name, kind);
    return kind;
  }
}
