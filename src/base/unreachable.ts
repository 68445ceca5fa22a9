/** The default case of an exhaustive switch. A missing case is then a compile error. */
export function unreachable(value: never): never {
  throw new Error(`unexpected value: ${String(value)}`);
}
