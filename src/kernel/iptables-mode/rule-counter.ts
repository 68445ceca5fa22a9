import type { IpFamily } from '../../base/ip.ts';
import type { RuleCounts } from '../../state/rules/rule-counts.ts';
import { scriptLines } from '../iptables/iptables-script.ts';
import type { ModeObserver } from '../mode-observer.ts';

/** Counts the rules of one family as they are written. */
export class RuleCounter {
  readonly #family: IpFamily;
  readonly #observer: ModeObserver;
  #total: RuleCounts = { nat: 0, filter: 0 };
  #last: RuleCounts = { nat: 0, filter: 0 };

  constructor(family: IpFamily, observer: ModeObserver) {
    this.#family = family;
    this.#observer = observer;
  }

  /** Sets the number of rules that the tables must have. */
  set(total: RuleCounts): void {
    this.#total = total;
    this.#tell();
  }

  /** Must be called when a script was written. `change`: how it changed what the tables must have. */
  written(script: string, change: RuleCounts = { nat: 0, filter: 0 }): void {
    this.#total = { nat: this.#total.nat + change.nat, filter: this.#total.filter + change.filter };
    this.#last = countAdded(script);
    this.#tell();
  }

  #tell(): void {
    this.#observer.rulesCounted(this.#family, this.#total, this.#last);
  }
}

function countAdded(script: string): RuleCounts {
  const counts: Record<string, number> = {};
  for (const { table, line } of scriptLines(script)) {
    if (line.startsWith('-A ') || line.startsWith('-I ')) counts[table] = (counts[table] ?? 0) + 1;
  }
  return { nat: counts['nat'] ?? 0, filter: counts['filter'] ?? 0 };
}
