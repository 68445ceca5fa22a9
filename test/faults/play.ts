import fc from 'fast-check';
import { type FaultHistory, anyHistory, historyLines } from './fault-history.ts';
import { CONFIGS } from './configs.ts';

/** CI always plays the same histories, so that a change fails only for its own bugs. Run other seeds manually. */
const CI_SEED = 31;

/** Options from the environment. */
export interface Wishes {
  readonly seed: number;
  readonly histories: number;
  /** Plays only this one, and the one before it for its state. */
  readonly only: number | undefined;
}

export function wishes(histories: number): Wishes {
  const { env } = process;
  const anySeed = env['CI'] === undefined ? Math.floor(Math.random() * 1_000_000) : CI_SEED;
  const seed = Number(env['TEST_FAULTS_SEED'] ?? env['SEED'] ?? anySeed);
  const only = env['TEST_FAULTS_ONLY'];
  return {
    seed,
    histories: Number(env['TEST_FAULTS_HISTORIES'] ?? histories),
    only: only === undefined ? undefined : Number(only),
  };
}

/** Time limit for shrinking a failing history. */
const SHRINK_MS = Number(process.env['TEST_FAULTS_SHRINK_MS'] ?? 60_000);

/** Plays random histories, each on the state that the previous one left. Rejects with the first failing one, shrunk. */
export async function play(
  { seed, histories, only }: Wishes,
  check: (history: FaultHistory, number: number) => Promise<void>,
): Promise<void> {
  const numbers = Array.from({ length: histories }, (_, index) => index + 1);
  for (const number of only === undefined ? numbers : [only - 1, only]) {
    const property = fc.asyncProperty(anyHistory(CONFIGS.length), (history) => check(history, number));
    const result = await fc.check(property, {
      seed: seed + number * 7919,
      numRuns: 1,
      unbiased: true,
      interruptAfterTimeLimit: SHRINK_MS,
    });
    if (!result.failed) continue;
    const [smallest] = result.counterexample ?? [];
    throw new Error(
      [
        `history ${number} of seed ${seed} (again: TEST_FAULTS_SEED=${seed} TEST_FAULTS_ONLY=${number}), shrunk ${result.numShrinks} times:`,
        ...(smallest === undefined ? [] : historyLines(smallest)),
        '',
        String(result.errorInstance),
      ].join('\n'),
    );
  }
}
