import type { EngineScheduler } from './engine-update.ts';

/** The properties of an endpoint on which the choice depends. */
export interface Candidate {
  readonly weight: number;
  /** Connections that it has. */
  readonly active: number;
}

/** Chooses the endpoints of one forwarded port, one after the other. */
export class EndpointChoice<T extends Candidate> {
  #next: number;
  /** The current weights of smooth weighted round robin; their sum is 0. */
  readonly #current = new Map<T, number>();

  /** @param start where round robin starts: nodes that start in different places spread their first connections */
  constructor(start: number) {
    this.#next = start;
  }

  /** Returns an endpoint of which `isAllowed` is true; undefined if there is none. Those with weight 0 are not chosen. */
  choose(name: EngineScheduler, candidates: readonly T[], isAllowed: (candidate: T) => boolean): T | undefined {
    const allowed = (candidate: T): boolean => candidate.weight > 0 && isAllowed(candidate);
    switch (name) {
      case 'rr':
        return this.#inTurn(candidates, allowed);
      case 'wrr':
        return this.#byWeight(candidates.filter(allowed));
      case 'lc':
        return this.#withLeast(candidates, allowed, ({ active }) => active);
      case 'wlc':
        return this.#withLeast(candidates, allowed, ({ active, weight }) => active / weight);
    }
  }

  /** Forgets an endpoint that has left. */
  forget(candidate: T): void {
    this.#current.delete(candidate);
  }

  #inTurn(candidates: readonly T[], allowed: (candidate: T) => boolean): T | undefined {
    for (let step = 0; step < candidates.length; step++) {
      const at = (this.#next + step) % candidates.length;
      const candidate = candidates[at];
      if (candidate === undefined || !allowed(candidate)) continue;
      this.#next = at + 1;
      return candidate;
    }
    return undefined;
  }

  #withLeast(
    candidates: readonly T[],
    allowed: (candidate: T) => boolean,
    load: (candidate: T) => number,
  ): T | undefined {
    let best: T | undefined;
    let [least, next] = [Infinity, this.#next];
    for (let step = 0; step < candidates.length; step++) {
      const at = (this.#next + step) % candidates.length;
      const candidate = candidates[at];
      // To ask whether it is allowed costs more than to compare.
      if (candidate === undefined || load(candidate) >= least || !allowed(candidate)) continue;
      [best, least, next] = [candidate, load(candidate), at + 1];
    }
    this.#next = next;
    return best;
  }

  #byWeight(candidates: readonly T[]): T | undefined {
    let best: T | undefined;
    let most = -Infinity;
    let total = 0;
    for (const candidate of candidates) {
      const current = (this.#current.get(candidate) ?? 0) + candidate.weight;
      this.#current.set(candidate, current);
      total += candidate.weight;
      if (current > most) [best, most] = [candidate, current];
    }
    if (best !== undefined) this.#current.set(best, most - total);
    return best;
  }
}
