/**
 * Returns a copy that has its own memory. V8 makes slice(), split() and regular expressions refer to the whole text, which
 * then stays in memory for as long as what was cut from it.
 */
export function ownCopy(text: string): string {
  return Buffer.from(text, 'utf16le').toString('utf16le');
}
