/**
 * The transactions of nf_tables that this program made, for both families. nf_tables numbers all
 * transactions of a network namespace, whoever makes them.
 */
export class OwnTransactions {
  /** The transactions after `#from`, up to and including `#to`, were ours. */
  #from = 0;
  #to = 0;

  /** Records that all transactions after `before`, up to and including `after`, were ours. */
  record(before: number, after: number): void {
    if (before !== this.#to) this.#from = before;
    this.#to = after;
  }

  /** Whether all transactions after `after`, up to and including `upTo`, are known to be ours. */
  areAll(after: number, upTo: number): boolean {
    return after === upTo || (after >= this.#from && after < upTo && upTo === this.#to);
  }
}
