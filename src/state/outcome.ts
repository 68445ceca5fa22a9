import { type Op, formatOp } from './op.ts';

/** A failed operation and the reason of the failure. */
export interface OpFailure {
  readonly op: Op;
  /** Positive errno; 0 if the failure has no errno (for example a timeout or a closed socket). */
  readonly errno: number;
  /** Symbolic errno ("EEXIST"), or a code of this program if there is no errno ("TIMEOUT"). */
  readonly code: string;
  /** The kernel's message (NLMSGERR_ATTR_MSG) or a message of this program; may be empty. */
  readonly text: string;
}

/** The result of a transaction. All operations that are not in `failures` succeeded. */
export interface Outcome {
  readonly failures: readonly OpFailure[];
  /** Why the remaining operations were not tried, for example because another program held a lock; absent if all were. */
  readonly stopped?: string;
}

export function formatFailure(failure: OpFailure): string {
  return `${formatOp(failure.op)}: ${failureReason(failure)}`;
}

/** The errno, and the message if there is one. */
export function failureReason({ code, text }: OpFailure): string {
  return `${code}${text === '' ? '' : `: ${text}`}`;
}
