/** Milliseconds of work between two looks at the clock. */
const LOOK_MS = 1;
/** Pieces of work may suddenly be large: so many at most go unseen. */
const MOST_PIECES = 32;

/**
 * Says when a budget of time is used up; to be asked after each small piece of work. The clock is looked at now and then only, for the
 * look may cost as much as the piece: under some hypervisors, and in an emulated kernel, it is a system call of up to a tenth of a
 * millisecond.
 */
export class Pace {
  readonly #budgetMs: number;
  #since = performance.now();
  #looked = this.#since;
  /** Between the last look and the next one, and how many of them are still to come. */
  #pieces = 1;
  #left = 1;
  #spent = false;

  constructor(budgetMs: number) {
    this.#budgetMs = budgetMs;
  }

  /** Stays true until `renew`. */
  get due(): boolean {
    if (this.#spent) return true;
    this.#left -= 1;
    return this.#left === 0 && this.#look();
  }

  /** The budget begins anew. */
  renew(): void {
    this.#spent = false;
    this.#since = performance.now();
    this.#looked = this.#since;
    this.#pieces = 1;
    this.#left = 1;
  }

  #look(): boolean {
    const now = performance.now();
    const pieceMs = (now - this.#looked) / this.#pieces;
    this.#looked = now;
    // Twice as many at most: a few small ones say little about the next.
    this.#pieces = Math.max(1, Math.min(MOST_PIECES, 2 * this.#pieces, Math.trunc(LOOK_MS / pieceMs)));
    this.#left = this.#pieces;
    this.#spent = now - this.#since >= this.#budgetMs;
    return this.#spent;
  }
}
