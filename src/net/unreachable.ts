/** Ends an exhaustive switch: the compiler refuses a case that was forgotten. */
export function unreachable(value: never): never {
  throw new Error(`unexpected value: ${String(value)}`);
}
