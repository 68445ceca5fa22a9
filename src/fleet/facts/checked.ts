/** Returns a number of a reply. Throws if it is something else. */
export function checkedNumber(name: string, value: unknown): number {
  if (typeof value === 'number') return value;
  throw new Error(`${name} is no number in its reply`);
}

/** Returns a text of a reply. Throws if it is something else. */
export function checkedText(name: string, value: unknown): string {
  if (typeof value === 'string') return value;
  throw new Error(`${name} is no text in its reply`);
}
