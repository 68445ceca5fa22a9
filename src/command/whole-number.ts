import { UsageError } from './usage-error.ts';

/** Returns the value of an option. Throws a UsageError if it is no whole number from `least` to `most`. */
export function wholeNumber(option: string, text: string, least: number, most: number): number {
  const value = /^\d+$/.test(text) ? Number(text) : NaN;
  if (value >= least && value <= most) return value;
  throw new UsageError(`--${option}: want a whole number from ${least} to ${most}, got ${JSON.stringify(text)}`);
}
