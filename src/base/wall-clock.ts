/** Wall-clock time at which the monotonic clock was 0, in milliseconds since 1970. */
let origin = performance.timeOrigin;

/**
 * Returns milliseconds since 1970, with a fraction. Use it only for timestamps that people or the API read. The wall
 * clock may jump at any time, so timers and measurements use the monotonic clock (performance.now()).
 */
export function wallNow(): number {
  const monotonic = performance.now();
  const milliseconds = Date.now();
  const precise = origin + monotonic;
  if (precise >= milliseconds && precise < milliseconds + 1) return precise;
  origin = milliseconds - monotonic;
  return milliseconds;
}
