import type { FailureLine, SlowLine } from './client/lines.ts';
import type { Limits } from './trial.ts';

/** A failure, with the client that saw it. */
export interface Failure extends FailureLine {
  readonly client: string;
}

export interface Slow extends SlowLine {
  readonly client: string;
}

/** Something that was done, and when: milliseconds since 1970. */
export interface Step {
  readonly at: number;
  readonly text: string;
}

/** Failures that must be expected, and why. */
export interface Allowance {
  readonly because: string;
  readonly covers: (failure: Failure) => boolean;
}

/** A condition of the trial that is not about connections. */
export interface Check {
  readonly claim: string;
  readonly holds: boolean;
}

/** Everything that a trial leaves for judging. */
export interface Evidence {
  readonly steps: readonly Step[];
  /** Connections that were begun. */
  readonly asked: number;
  /** Failures that the clients counted but did not describe. */
  readonly unlisted: number;
  readonly failures: readonly Failure[];
  readonly slow: readonly Slow[];
  readonly allowances: readonly Allowance[];
  readonly checks: readonly Check[];
  readonly limits: Limits;
  /** How many connections the clients should have begun in this time. */
  readonly expected: number;
}

export interface Verdict {
  /** What is wrong, one sentence each; empty if the trial holds. */
  readonly wrong: readonly string[];
  readonly asked: number;
  /** Not covered by an allowance. */
  readonly failed: number;
  readonly cut: number;
  readonly slow: number;
  /** How many failures each reason covers. */
  readonly allowed: Readonly<Record<string, number>>;
}

/** With less, the traffic did not go on all the while. */
const ENOUGH = 0.8;

export function judge(evidence: Evidence): Verdict {
  const { asked, unlisted, failures, slow, allowances, limits, expected } = evidence;
  const allowed: Record<string, number> = {};
  let failed = 0;
  let cut = 0;
  for (const failure of failures) {
    const reason = allowances.find(({ covers }) => covers(failure))?.because;
    if (reason !== undefined) allowed[reason] = (allowed[reason] ?? 0) + 1;
    else if (failure.cut) cut++;
    else failed++;
  }
  const wrong = [
    ...overLimit('connections failed', failed, limits.failed),
    ...overLimit('connections were cut', cut, limits.cut),
    ...(unlisted > 0 ? [`${unlisted} failures are not listed`] : []),
    ...(asked < ENOUGH * expected ? [`only ${asked} of ${expected} connections were asked`] : []),
    ...evidence.checks.filter(({ holds }) => !holds).map(({ claim }) => `it does not hold that ${claim}`),
  ];
  return { wrong, asked, failed, cut, slow: slow.length, allowed };
}

function overLimit(what: string, count: number, limit: number): readonly string[] {
  return count > limit ? [`${count} ${what}, not more than ${limit} may`] : [];
}

/** One group of failures during a step. */
export interface FailureGroup {
  readonly step: string;
  readonly text: string;
  readonly count: number;
  /** Seconds from the step to the first and to the last of them. */
  readonly from: number;
  readonly to: number;
}

/** Groups failures that are alike, by the step during which they began, in the order of the steps. */
export function failuresByStep(
  steps: readonly Step[],
  failures: readonly Failure[],
  allowances: readonly Allowance[],
): readonly FailureGroup[] {
  const groups = new Map<string, FailureGroup>();
  for (const failure of failures.toSorted((a, b) => a.at - b.at)) {
    const step = steps.findLast(({ at }) => at <= failure.at) ?? { at: failure.at, text: 'before the first step' };
    const seconds = Math.round((failure.at - step.at) / 100) / 10;
    const text = textOf(failure, allowances);
    const key = `${step.at} ${text}`;
    const group = groups.get(key) ?? { step: step.text, text, count: 0, from: seconds, to: seconds };
    groups.set(key, { ...group, count: group.count + 1, to: seconds });
  }
  return [...groups.values()];
}

function textOf(failure: Failure, allowances: readonly Allowance[]): string {
  const { client, target, kind, detail, cut, served } = failure;
  const what = `${cut ? 'cut' : 'failed'}: ${client} to ${target}: ${kind} (${detail})`;
  const server = served === undefined ? '' : `, served by ${served}`;
  const reason = allowances.find(({ covers }) => covers(failure))?.because;
  return `${what}${server}${reason === undefined ? '' : `; allowed: ${reason}`}`;
}
