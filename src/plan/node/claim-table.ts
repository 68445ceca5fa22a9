import { compareText } from '../../base/text/compare-text.ts';
import type { NamespacedName } from '../../base/service/names.ts';

/** A service's claim on a virtual server or health check port. Each of these has only one owner. */
export interface Claim<P> {
  readonly service: NamespacedName;
  /** Creation time of the service in seconds since 1970; undefined if unknown. */
  readonly createdAt: number | undefined;
  readonly planned: P;
}

/**
 * Stores the claims on each key. Of several claims on one key, the lowest rank wins, then the oldest service, then the
 * first service name. The cost of a change depends only on the number of claims on its key.
 */
export class ClaimTable<K, P> {
  readonly #rankOf: (planned: P) => number;
  readonly #onMove: (service: NamespacedName) => void;
  readonly #owners = new Map<K, Claim<P>>();
  /** The lost claims on each key, best first. Usually there are none. */
  readonly #losers = new Map<K, Claim<P>[]>();
  /** The number of lost claims of each service. */
  readonly #losses = new Map<NamespacedName, number>();
  #lossCount = 0;

  /** @param onMove called with each service that lost or gained a contested key */
  constructor(rankOf: (planned: P) => number, onMove: (service: NamespacedName) => void) {
    this.#rankOf = rankOf;
    this.#onMove = onMove;
  }

  get size(): number {
    return this.#owners.size;
  }

  get lossCount(): number {
    return this.#lossCount;
  }

  owner(key: K): Claim<P> | undefined {
    return this.#owners.get(key);
  }

  owners(): IterableIterator<Claim<P>> {
    return this.#owners.values();
  }

  losses(service: NamespacedName): number {
    return this.#losses.get(service) ?? 0;
  }

  /** Replaces a service's claim on a key. `before` is undefined for a new claim, `after` for a withdrawn one. */
  change(key: K, before: Claim<P> | undefined, after: Claim<P> | undefined): void {
    if (before !== undefined && after !== undefined && this.#compare(before, after) === 0) {
      this.#update(key, after);
      return;
    }
    if (before !== undefined) this.#withdraw(key, before);
    if (after !== undefined) this.#enter(key, after);
  }

  #update(key: K, claim: Claim<P>): void {
    if (this.#owners.get(key)?.service === claim.service) {
      this.#owners.set(key, claim);
      return;
    }
    const losers = this.#losers.get(key) ?? [];
    losers[this.#placeOf(losers, claim)] = claim;
  }

  #enter(key: K, claim: Claim<P>): void {
    const owner = this.#owners.get(key);
    if (owner === undefined) {
      this.#owners.set(key, claim);
      return;
    }
    const wins = this.#compare(claim, owner) < 0;
    if (wins) this.#owners.set(key, claim);
    const loser = wins ? owner : claim;
    const losers = this.#losers.get(key);
    if (losers === undefined) this.#losers.set(key, [loser]);
    else losers.splice(this.#placeOf(losers, loser), 0, loser);
    this.#count(loser.service, 1);
  }

  #withdraw(key: K, claim: Claim<P>): void {
    const losers = this.#losers.get(key);
    if (this.#owners.get(key)?.service !== claim.service) {
      if (losers === undefined) return;
      losers.splice(this.#placeOf(losers, claim), 1);
      this.#count(claim.service, -1);
    } else {
      const next = losers?.shift();
      if (next === undefined) this.#owners.delete(key);
      else {
        this.#owners.set(key, next);
        this.#count(next.service, -1);
      }
    }
    if (losers?.length === 0) this.#losers.delete(key);
  }

  #count(service: NamespacedName, difference: 1 | -1): void {
    const losses = this.losses(service) + difference;
    if (losses === 0) this.#losses.delete(service);
    else this.#losses.set(service, losses);
    this.#lossCount += difference;
    this.#onMove(service);
  }

  /** Returns the index of the claim in `losers`, or the index at which to insert it. */
  #placeOf(losers: readonly Claim<P>[], claim: Claim<P>): number {
    const place = losers.findIndex((other) => this.#compare(other, claim) >= 0);
    return place < 0 ? losers.length : place;
  }

  #compare(a: Claim<P>, b: Claim<P>): number {
    return this.#rankOf(a.planned) - this.#rankOf(b.planned) || compareAge(a, b) || compareText(a.service, b.service);
  }
}

/** A service without a creation time is considered the youngest. */
function compareAge({ createdAt: a }: Claim<unknown>, { createdAt: b }: Claim<unknown>): number {
  if (a === b) return 0;
  if (a === undefined) return 1;
  return b === undefined ? -1 : a - b;
}
