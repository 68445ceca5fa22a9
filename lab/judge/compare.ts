import type { Case } from './case/case.ts';

/** Single things that a side has after a step, such as `virtual server TCP 10.96.0.1:80`, each with its value as text. */
export interface Facts {
  keys(): Iterable<string>;
  get(fact: string): string | undefined;
}

/** How a mode is judged. */
export interface JudgedMode<State> {
  /** Plays a case on our side; returns the state after each step. */
  playOurs(given: Case): Promise<readonly State[]>;
  /** Returns the facts of a state after a step. */
  factsOf(state: State, given: Case, step: number): Facts;
  /** Returns the names of the intended differences that explain a mismatch; undefined if something remains. */
  explain(mismatch: Mismatch): readonly string[] | undefined;
}

/** Names a difference from kube-proxy that is meant to be. */
export interface NamedDifference {
  readonly name: string;
  /** The heading in docs/differences.md under which users find it. */
  readonly section: string;
}

/** A difference in single facts. */
export interface IntendedDifference extends NamedDifference {
  /**
   * Our value as it would be without this difference; undefined if the difference does not apply. As narrow as possible:
   * what no intended difference explains is a fault of one side.
   */
  undo(mismatch: Mismatch): { readonly value: string | undefined } | undefined;
}

/** One fact that differs from all of upstream's results. */
export interface Mismatch {
  readonly given: Case;
  readonly step: number;
  readonly fact: string;
  /** Undefined if we do not have it. */
  readonly ours: string | undefined;
  /** What upstream's runs have, without duplicates. */
  readonly theirs: readonly (string | undefined)[];
  readonly oursAll: Facts;
  readonly theirsAll: readonly Facts[];
}

/** The facts of ours that no result of upstream has in the same step. */
export function mismatches<State>(
  mode: Pick<JudgedMode<State>, 'factsOf'>,
  given: Case,
  ours: readonly State[],
  results: readonly (readonly State[])[],
): Mismatch[] {
  return given.steps.flatMap((_, step) => {
    const oursAll = factsAt(mode, ours, given, step);
    const theirsAll = results.map((states) => factsAt(mode, states, given, step));
    const names = new Set([oursAll, ...theirsAll].flatMap((facts) => [...facts.keys()]));
    return [...names].flatMap((fact) => {
      const own = oursAll.get(fact);
      // Most are equal to that of the first result; to find a fact may take some time.
      if (theirsAll.some((facts) => facts.get(fact) === own)) return [];
      const theirs = [...new Set(theirsAll.map((facts) => facts.get(fact)))];
      return [{ given, step, fact, ours: own, theirs, oursAll, theirsAll }];
    });
  });
}

function factsAt<State>(
  mode: Pick<JudgedMode<State>, 'factsOf'>,
  states: readonly State[],
  given: Case,
  step: number,
): Facts {
  const state = states[step];
  if (state === undefined) throw new Error(`no state after step ${step}`);
  return mode.factsOf(state, given, step);
}

/** The names of the intended differences that together explain a mismatch; undefined if something remains. */
export function explain(differences: readonly IntendedDifference[], mismatch: Mismatch): string[] | undefined {
  const names: string[] = [];
  let current = mismatch;
  for (const difference of differences) {
    const undone = difference.undo(current);
    if (undone === undefined) continue;
    names.push(difference.name);
    if (mismatch.theirs.includes(undone.value)) return names;
    current = { ...current, ours: undone.value };
  }
  return undefined;
}
