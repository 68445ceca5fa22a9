const UNITS = ['', 'k', 'M', 'G', 'T', 'P'];

/** Returns the number in at most five characters: 0.3, 12, 1.2k, 340k, 5.6M. */
export function short(value: number): string {
  if (value > 0 && value < 9.95) return value.toFixed(1).replace('.0', '');
  let scaled = value;
  let unit = 0;
  while (Math.round(scaled) >= 1000 && unit < UNITS.length - 1) {
    scaled /= 1000;
    unit += 1;
  }
  return `${scaled.toFixed(unit > 0 && scaled < 9.95 ? 1 : 0)}${UNITS[unit]}`;
}
