/** Returns the retry delay in ms: `firstMs`, doubled after each further failure in a row, at most `maxMs`. */
export function doublingDelay(failures: number, maxMs: number, firstMs = 1_000): number {
  return Math.min(firstMs * 2 ** Math.min(failures - 1, 30), maxMs);
}
