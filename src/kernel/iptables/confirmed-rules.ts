import { isDeepStrictEqual } from 'node:util';
import type { IpFamily } from '../../base/ip.ts';
import type { RuleSet } from '../../state/rules/rule-set.ts';

/** After this time, rules are read again, although nothing has changed. */
const MAX_AGE_MS = 10 * 60_000;

/** The generation of nf_tables, or a digest of tables of iptables-legacy. */
export type RulesVersion = number | string;

interface Confirmed {
  readonly rules: RuleSet;
  readonly version: RulesVersion;
  readonly at: number;
}

/** Remembers at which version of its tables which rules were found in force. As long as the version is the same, they still are. */
export class ConfirmedRules {
  readonly #now: () => number;
  readonly #confirmed = new Map<IpFamily, Confirmed>();

  /** @param now the time in milliseconds */
  constructor(now: () => number = () => performance.now()) {
    this.#now = now;
  }

  /** @param version read before the rules were */
  note(rules: RuleSet, version: RulesVersion | undefined): void {
    if (version === undefined) return;
    this.#confirmed.set(rules.family, { rules, version, at: this.#now() });
  }

  /** Returns whether these rules are still in force, as far as is known. */
  stillHold(rules: RuleSet, version: RulesVersion | undefined): boolean {
    const known = this.#confirmed.get(rules.family);
    if (known === undefined || known.version !== version || this.#now() - known.at >= MAX_AGE_MS) return false;
    return isDeepStrictEqual(known.rules, rules);
  }
}
