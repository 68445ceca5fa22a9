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

function withFraction(nanoseconds: bigint, unit: bigint, suffix: string): string {
  const digits = unit.toString().length - 1;
  const fraction = (nanoseconds % unit).toString().padStart(digits, '0').replace(/0+$/, '');
  return `${nanoseconds / unit}${fraction === '' ? '' : `.${fraction}`}${suffix}`;
}

/** Returns Go's canonical form: "1h0m0s", "1m30s", "1.5s", "250ms", "0s". */
export function formatDuration(duration: Duration): string {
  const signed = BigInt(Math.round(duration * 1e6));
  if (signed === 0n) return '0s';
  const sign = signed < 0n ? '-' : '';
  const total = signed < 0n ? -signed : signed;
  if (total < 1_000n) return `${sign}${total}ns`;
  if (total < 1_000_000n) return sign + withFraction(total, 1_000n, '\u00b5s');
  if (total < 1_000_000_000n) return sign + withFraction(total, 1_000_000n, 'ms');
  const minutes = total / 60_000_000_000n;
  const seconds = withFraction(total % 60_000_000_000n, 1_000_000_000n, 's');
  if (minutes === 0n) return sign + seconds;
  if (minutes < 60n) return `${sign}${minutes}m${seconds}`;
  return `${sign}${minutes / 60n}h${minutes % 60n}m${seconds}`;
}
