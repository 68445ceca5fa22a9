/** The daemon cannot start. The message is one sentence that says what to do; it is logged without a stack. */
export class StartupError extends Error {
  override readonly name = 'StartupError';
}
