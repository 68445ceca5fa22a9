/**
 * The kernel refused or could not be asked. The message is one sentence that says what to do; `code` is an errno name
 * ("EPERM", "ENOENT") or a word of our own ("MISSING_MODULE", "TIMEOUT", "CLOSED").
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
