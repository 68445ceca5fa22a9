/** Returns the error's system code (such as ENOENT or ECONNREFUSED); undefined if it has none. */
export function errorCode(error: unknown): string | undefined {
  const code = propertyOf(error, 'code');
  return typeof code === 'string' ? code : undefined;
}

/** Returns the message of any thrown value. `instanceof` would fail for errors of another realm (a vm context). */
export function errorText(error: unknown): string {
  // An AggregateError, for example of a connection attempt, contains one error for each address of the host.
  const errors = propertyOf(error, 'errors');
  if (Array.isArray(errors) && errors.length > 0) return [...new Set(errors.map(errorText))].join('; ');
  const message = propertyOf(error, 'message');
  if (message === undefined) return String(error);
  return typeof message === 'string' && message !== '' ? message : (errorCode(error) ?? 'unknown error');
}

function propertyOf(value: unknown, name: string): unknown {
  return typeof value === 'object' && value !== null ? (value as Record<string, unknown>)[name] : undefined;
}
