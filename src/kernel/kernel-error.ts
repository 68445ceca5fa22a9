import { errorText } from '../base/text/error-text.ts';
import type { Refusal } from '../state/outcome.ts';

/**
 * A failed operation on the kernel. The message is one sentence that says what failed and why and, where known, what to
 * do; `code` is an errno name ("EPERM", "ENOENT") or one of our own codes ("MISSING_MODULE", "TABLE_OWNED", "TIMEOUT",
 * "CLOSED").
 */
export class KernelError extends Error {
  readonly operation: string;
  readonly code: string;

  constructor(operation: string, code: string, message: string, options?: ErrorOptions) {
    super(message, options);
    this.name = 'KernelError';
    this.operation = operation;
    this.code = code;
  }
}

/** Returns the error as the refusal of what was tried. */
export function asRefusal(error: unknown): Refusal {
  return { errno: 0, code: error instanceof KernelError ? error.code : 'FAILED', text: errorText(error) };
}

/** The code if another process owns a table of nf_tables. */
export const TABLE_OWNED = 'TABLE_OWNED';

/** Whether the kernel lacks a module that this process could not load. */
export function isMissingModule(error: unknown): boolean {
  return error instanceof KernelError && error.code === 'MISSING_MODULE';
}
