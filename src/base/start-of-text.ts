/**
 * Returns at most the first `length` characters, as a copy. V8 makes slice() refer to the whole text, which then stays
 * in memory for as long as its beginning.
 */
export function startOfText(text: string, length: number): string {
  return text.length <= length ? text : Buffer.from(text.slice(0, length), 'utf16le').toString('utf16le');
}
