/** The system's code of an error (ENOENT, ECONNREFUSED...), where it has one. */
export function errorCode(error: unknown): string | undefined {
  if (typeof error !== 'object' || error === null || !('code' in error)) return undefined;
  return typeof error.code === 'string' ? error.code : undefined;
}

/** The sentence of anything that was thrown. */
export function errorText(error: unknown): string {
  if (typeof error !== 'object' || error === null || !('message' in error)) return String(error);
  return typeof error.message === 'string' && error.message !== ''
    ? error.message
    : (errorCode(error) ?? 'unknown error');
}
