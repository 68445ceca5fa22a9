/** A possible result of something random. */
export interface Alternative<T> {
  readonly value: T;
  readonly probability: number;
}

interface Choice {
  readonly probabilities: readonly number[];
  taken: number;
}

/**
 * Returns all results of a function that makes random choices: it is called once for each sequence of choices. Choices of
 * probability 0 are not made.
 */
export function explore<T>(
  run: (choose: (probabilities: readonly number[]) => number) => T,
): readonly Alternative<T>[] {
  const results: Alternative<T>[] = [];
  const path: Choice[] = [];
  do {
    let at = 0;
    const value = run((probabilities) => {
      if (at === path.length) path.push({ probabilities, taken: nextPossible(probabilities, 0) });
      at += 1;
      return (path[at - 1] as Choice).taken;
    });
    const probability = path.reduce((product, { probabilities, taken }) => product * (probabilities[taken] ?? 0), 1);
    results.push({ value, probability });
  } while (advance(path));
  return results;
}

/** Sets the path to the next one; returns false after the last. */
function advance(path: Choice[]): boolean {
  for (let last = path.at(-1); last !== undefined; last = path.at(-1)) {
    last.taken = nextPossible(last.probabilities, last.taken + 1);
    if (last.taken < last.probabilities.length) return true;
    path.pop();
  }
  return false;
}

function nextPossible(probabilities: readonly number[], from: number): number {
  const at = probabilities.findIndex((probability, index) => index >= from && probability > 0);
  return at < 0 ? probabilities.length : at;
}
