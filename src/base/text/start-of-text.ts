import { ownCopy } from './own-copy.ts';

/** Returns at most the first `length` characters, as a copy that has its own memory. */
export function startOfText(text: string, length: number): string {
  return text.length <= length ? text : ownCopy(text.slice(0, length));
}
