/** Milliseconds, with fractions down to a nanosecond (0.000001). */
export type Duration = number;

export const SECOND: Duration = 1000;
export const MINUTE: Duration = 60 * SECOND;
export const HOUR: Duration = 60 * MINUTE;

const NANOSECONDS_PER: Readonly<Record<string, bigint>> = {
  ns: 1n,
  us: 1_000n,
  // Go accepts both the micro sign (U+00B5) and the Greek mu (U+03BC).
  '\u00b5s': 1_000n,
  '\u03bcs': 1_000n,
  ms: 1_000_000n,
  s: 1_000_000_000n,
  m: 60_000_000_000n,
  h: 3_600_000_000_000n,
};

/** Go stores durations as int64 nanoseconds. */
const MAX_NANOSECONDS = 2n ** 63n - 1n;

const TERM = /(\d*)(?:\.(\d*))?(ns|us|\u00b5s|\u03bcs|ms|s|m|h)/y;

/** Parses a duration like Go's time.ParseDuration ("1h30m", "-1.5s", "0"); returns undefined if it is invalid. */
export function parseDuration(text: string): Duration | undefined {
  const negative = text.startsWith('-');
  const body = negative || text.startsWith('+') ? text.slice(1) : text;
  if (body === '0') return 0;
  if (body === '') return undefined;
  let total = 0n;
  TERM.lastIndex = 0;
  while (TERM.lastIndex < body.length) {
    const term = TERM.exec(body);
    if (term === null) return undefined;
    const whole = term[1] ?? '';
    const fraction = term[2] ?? '';
    if (whole === '' && fraction === '') return undefined;
    const unit = NANOSECONDS_PER[term[3] ?? ''] ?? 0n;
    total += BigInt(whole) * unit + (BigInt(fraction) * unit) / 10n ** BigInt(fraction.length);
    if (total > MAX_NANOSECONDS) return undefined;
  }
  const milliseconds = Number(total) / 1e6;
  return negative && milliseconds !== 0 ? -milliseconds : milliseconds;
}

/** Returns Go's canonical form: "1h0m0s", "1m30s", "1.5s", "250ms", "0s". */
export function formatDuration(duration: Duration): string {
  const sign = duration < 0 ? '-' : '';
  const total = Math.round(Math.abs(duration) * 1e6);
  if (total === 0) return '0s';
  if (total < 1e3) return `${sign}${total}ns`;
  if (total < 1e6) return `${sign}${total / 1e3}\u00b5s`;
  if (total < 1e9) return `${sign}${total / 1e6}ms`;
  const minutes = Math.floor(total / 60e9);
  const seconds = `${(total % 60e9) / 1e9}s`;
  if (minutes === 0) return sign + seconds;
  if (minutes < 60) return `${sign}${minutes}m${seconds}`;
  return `${sign}${Math.floor(minutes / 60)}h${minutes % 60}m${seconds}`;
}
