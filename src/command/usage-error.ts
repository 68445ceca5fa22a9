/** The question could not be asked. The message is one sentence; the exit code is 2. */
export class UsageError extends Error {
  override readonly name = 'UsageError';
}
