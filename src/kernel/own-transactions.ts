/**
 * The transactions of nf_tables that this program made, for both families. nf_tables numbers all
 * transactions of a network namespace, whoever makes them.
 */
export class OwnTransactions {
  /** Those after `#from`, up to `#to`, were ours. */
  #from = 0;
  #to = 0;

  /** Those after `before`, up to `after`, were ours. */
  record(before: number, after: number): void {
    if (before !== this.#to) this.#from = before;
    this.#to = after;
  }

  /** Whether there were only ours after one, up to another. */
  areAll(after: number, upTo: number): boolean {
    return after === upTo || (after >= this.#from && after < upTo && upTo === this.#to);
  }
}
