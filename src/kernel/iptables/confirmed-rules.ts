import { isDeepStrictEqual } from 'node:util';
import type { IpFamily } from '../../base/ip.ts';
import type { RuleSet } from '../../state/rules/rule-set.ts';

/** After this time, rules are read again, although nothing has changed. */
const MAX_AGE_MS = 10 * 60_000;

interface Confirmed {
  readonly rules: RuleSet;
  readonly generation: number;
  readonly at: number;
}

/**
 * Remembers which rules were found in force at which generation of nf_tables. As long as the generation is the same, they
 * still are. iptables-legacy has no generation.
 */
export class ConfirmedRules {
  readonly #now: () => number;
  readonly #confirmed = new Map<IpFamily, Confirmed>();

  /** @param now the time in milliseconds */
  constructor(now: () => number = () => performance.now()) {
    this.#now = now;
  }

  /** @param generation read before the rules were */
  note(rules: RuleSet, generation: number | undefined): void {
    if (generation === undefined) return;
    this.#confirmed.set(rules.family, { rules, generation, at: this.#now() });
  }

  /** Returns whether these rules are still in force, as far as is known. */
  stillHold(rules: RuleSet, generation: number | undefined): boolean {
    const known = this.#confirmed.get(rules.family);
    if (known === undefined || known.generation !== generation || this.#now() - known.at >= MAX_AGE_MS) return false;
    return isDeepStrictEqual(known.rules, rules);
  }
}
