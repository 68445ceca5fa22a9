import { type Op, formatOp } from './op.ts';

/** Why the kernel refused an operation. */
export interface OpFailure {
  readonly op: Op;
  /** Positive errno value; 0 when the failure has none (a deadline, a closed socket). */
  readonly errno: number;
  /** Symbolic name ("EEXIST"), or a word of our own where there is no errno ("TIMEOUT"). */
  readonly code: string;
  /** The kernel's own words (NLMSGERR_ATTR_MSG), or what we know; may be empty. */
  readonly text: string;
}

/** What came of a transaction: every operation that is not among the failures was done. */
export interface Outcome {
  readonly attempted: number;
  readonly failures: readonly OpFailure[];
}

export function formatFailure({ op, code, text }: OpFailure): string {
  return `${formatOp(op)}: ${code}${text === '' ? '' : `: ${text}`}`;
}
