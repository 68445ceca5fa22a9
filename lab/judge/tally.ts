import type { Case } from './case/case.ts';
import { type Verdict, kindOf } from './judge.ts';

/** What was compared, and what differed how often. */
export class Tally {
  #cases = 0;
  #steps = 0;
  #failed = 0;
  /** Facts explained, by intended difference. */
  readonly #explained = new Map<string, number>();
  /** Cases, by kind of mismatch. */
  readonly #unexplained = new Map<string, number>();

  /** Cases with an unexplained mismatch. */
  get failed(): number {
    return this.#failed;
  }

  add({ steps }: Case, { explained, unexplained }: Verdict): void {
    this.#cases += 1;
    this.#steps += steps.length;
    if (unexplained.length > 0) this.#failed += 1;
    for (const name of explained) increment(this.#explained, name);
    for (const kind of new Set(unexplained.map(kindOf))) increment(this.#unexplained, kind);
  }

  lines(): string[] {
    return [
      ...counts(this.#explained).map(([name, count]) => `intended: ${name}: ${count}`),
      ...counts(this.#unexplained).map(([kind, count]) => `unexplained: ${kind}: in ${count} cases`),
      `${this.#cases} cases, ${this.#steps} steps: ${this.#failed} cases with unexplained differences`,
    ];
  }
}

function increment(counted: Map<string, number>, key: string): void {
  counted.set(key, (counted.get(key) ?? 0) + 1);
}

function counts(counted: ReadonlyMap<string, number>): [string, number][] {
  return [...counted].toSorted(([, a], [, b]) => b - a);
}
