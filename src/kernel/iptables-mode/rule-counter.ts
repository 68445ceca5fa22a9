import type { IpFamily } from '../../base/ip.ts';
import type { RuleCounts } from '../../state/rules/rule-counts.ts';
import type { ModeObserver } from '../mode-observer.ts';
import type { Rendered, Table } from './service-port.ts';

type Counts = Record<Table, number>;

const TABLE_LINE = /^\*(nat|filter)$/;

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

/** Returns the number of rules that are rendered after a change, less those before. */
export function ruleDifference(before: readonly Rendered[], after: readonly Rendered[]): RuleCounts {
  const [old, now] = [countRendered(before), countRendered(after)];
  return { nat: now.nat - old.nat, filter: now.filter - old.filter };
}

function countRendered(rendered: readonly Rendered[]): Counts {
  const counts: Counts = { nat: 0, filter: 0 };
  for (const { chains, shared } of rendered) {
    for (const { table, rules } of chains) counts[table] += rules.length;
    for (const { table } of shared) counts[table] += 1;
  }
  return counts;
}

/** Returns the number of rules that a script for iptables-restore adds. */
function countAdded(script: string): Counts {
  const counts: Counts = { nat: 0, filter: 0 };
  let table: Table = 'nat';
  for (const line of script.split('\n')) {
    const [, found] = TABLE_LINE.exec(line) ?? [];
    if (found !== undefined) table = found as Table;
    else if (line.startsWith('-A ') || line.startsWith('-I ')) counts[table] += 1;
  }
  return counts;
}
