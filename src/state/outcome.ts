import { type Op, formatOp } from './op.ts';

/** Why the kernel, or a program, refused something. */
export interface Refusal {
  /** Positive errno; 0 if there is none (for example for a timeout or a closed socket). */
  readonly errno: number;
  /** Symbolic errno ("EEXIST"), or a code of this program if there is no errno ("TIMEOUT"). */
  readonly code: string;
  /** The kernel's message (NLMSGERR_ATTR_MSG) or a message of this program; may be empty. */
  readonly text: string;
}

/** A failed operation and the reason of the failure. */
export interface OpFailure extends Refusal {
  readonly op: Op;
}

export function failureOf(op: Op, { errno, code, text }: Refusal): OpFailure {
  return { op, errno, code, text };
}

/** The result of a transaction. All operations that are not in `failures` succeeded. */
export interface Outcome {
  readonly failures: readonly OpFailure[];
  /** Why the remaining operations were not tried, for example because another program held a lock; absent if all were. */
  readonly stopped?: string;
}

export function formatFailure(failure: OpFailure): string {
  return `${formatOp(failure.op)}: ${reasonOf(failure)}`;
}

/** Returns the code, and the text if there is one. */
export function reasonOf({ code, text }: Pick<Refusal, 'code' | 'text'>): string {
  return `${code}${text === '' ? '' : `: ${text}`}`;
}
