/** Returns the number with its noun: "1 endpoint", "2 endpoints". */
export function counted(count: number, noun: string, plural = `${noun}s`): string {
  return `${count} ${count === 1 ? noun : plural}`;
}
