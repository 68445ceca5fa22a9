import type { SpecResult } from '../e2e/junit.ts';
import type { TrialResult } from '../trial/results.ts';

/** One thing that was tried. */
export interface Check {
  readonly name: string;
  /** Why it did not pass; undefined if it passed. */
  readonly failure?: string;
}

/** A check for each spec that was asked for, whether or not it ran. Only one that ran and passed counts as passed. */
export function specChecks(specs: readonly string[], results: readonly SpecResult[]): readonly Check[] {
  const byName = new Map(results.map((result) => [result.spec, result]));
  return specs.map((name) => {
    const result = byName.get(name);
    if (result === undefined) return { name, failure: 'it did not run' };
    if (result.outcome === 'passed') return { name };
    return { name, failure: `${result.outcome}: ${result.message}` };
  });
}

/** A trial is one check. */
export function trialCheck({
  what,
  asked,
  failed,
  cut,
  wrong,
}: Pick<TrialResult, 'what' | 'asked' | 'failed' | 'cut' | 'wrong'>): Check {
  const name = `${what}, under traffic`;
  if (wrong.length === 0) return { name };
  return { name, failure: `${asked} connections asked, ${failed} failed, ${cut} cut: ${wrong.join('; ')}` };
}

/** The fields of a report of jest that scripts/count.ts adds up. */
export function checkReport(checks: readonly Check[]): object {
  const failed = checks.filter(({ failure }) => failure !== undefined).length;
  return { numPassedTests: checks.length - failed, numFailedTests: failed, numRuntimeErrorTestSuites: 0 };
}

/** One line for each check. */
export function checkLines(checks: readonly Check[]): readonly string[] {
  return checks.map(({ name, failure }) => (failure === undefined ? `ok      ${name}` : `FAILED  ${name}: ${failure}`));
}
