/** By the measure's name: ours over its baseline. */
export type Ratios = Readonly<Record<string, number>>;

export interface Judgement {
  readonly name: string;
  /** undefined: this measure no longer exists, which fails; record the ratios again. */
  readonly ratio: number | undefined;
  /** undefined: a new measure, which cannot fail yet. */
  readonly recorded: number | undefined;
  readonly failed: boolean;
}

/** No noise of a run makes its ratio so much worse; what slows down all that is measured does not change it. */
const LIMIT = 2;

/** A recorded measure passes if its ratio is at most twice the recorded one. */
export function judge(recorded: Ratios, found: Ratios): Judgement[] {
  const names = [...new Set([...Object.keys(recorded), ...Object.keys(found)])];
  return names.map((name) => {
    const before = recorded[name];
    const now = found[name];
    return {
      name,
      ratio: now,
      recorded: before,
      failed: before !== undefined && !(now !== undefined && now <= before * LIMIT),
    };
  });
}

/** Of two runs the better ratio of each measure: what is slow only once is noise. */
export function better(first: Ratios, second: Ratios): Ratios {
  const names = [...new Set([...Object.keys(first), ...Object.keys(second)])];
  return Object.fromEntries(names.map((name) => [name, Math.min(first[name] ?? Infinity, second[name] ?? Infinity)]));
}
