import type { Log } from '../../observe/log/log.ts';

/** How often a jump is moved back before it is left where another program put it. */
const MOVES = 2;

/** Moves are forgotten when a jump has stayed in place for this long. */
const FORGOTTEN_AFTER_MS = 3_600_000;

interface Moves {
  count: number;
  /** When the jump was last found displaced. */
  at: number;
  logged: boolean;
}

/**
 * Counts how often displaced jumps were moved back. A displaced jump works, but is duplicated or has rules of other
 * programs after it. Two programs that each move their rule to the end would never stop; this one stops after MOVES.
 */
export class JumpContest {
  readonly #log: Log;
  readonly #now: () => number;
  readonly #moves = new Map<string, Moves>();

  constructor(log: Log, now: () => number = () => performance.now()) {
    this.#log = log;
    this.#now = now;
  }

  /** Returns the chains whose displaced jumps are no longer moved back. */
  leave(displaced: readonly string[]): ReadonlySet<string> {
    const left = new Set<string>();
    for (const chain of displaced) {
      const moves = this.#movesOf(chain);
      moves.at = this.#now();
      if (moves.count < MOVES) continue;
      left.add(chain);
      if (!moves.logged) this.#warn(chain);
      moves.logged = true;
    }
    return left;
  }

  /** Records that the jumps in these chains were moved back. */
  movedBack(chains: Iterable<string>): void {
    for (const chain of chains) this.#movesOf(chain).count += 1;
  }

  #movesOf(chain: string): Moves {
    const known = this.#moves.get(chain);
    if (known !== undefined && this.#now() - known.at < FORGOTTEN_AFTER_MS) return known;
    const none = { count: 0, at: this.#now(), logged: false };
    this.#moves.set(chain, none);
    return none;
  }

  #warn(chain: string): void {
    this.#log.warn(
      `another program keeps displacing our jumps in ${chain}. kube-ipvs-proxy has moved them back ${MOVES} times and now ` +
        'leaves them where they are. They still work, but come before the rules that the other program appends. If such ' +
        'a rule must be evaluated before ours, configure that program to insert it (-I) instead of appending it (-A)',
    );
  }
}
