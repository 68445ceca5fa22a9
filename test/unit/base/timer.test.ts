import { afterEach, beforeEach, describe, expect, jest, test } from '@jest/globals';
import fc from 'fast-check';
import { parseDuration } from '../../../src/base/duration.ts';
import { setTimer, sleep } from '../../../src/base/timer.ts';

/** The longest duration that Go, and so any setting, can hold. */
const LONGEST = parseDuration('2562047h47m16.854775807s')!;

describe('timers of any length', () => {
  beforeEach(() => {
    jest.useFakeTimers();
  });
  afterEach(() => {
    jest.useRealTimers();
  });

  test.each([0, 1, 2 ** 31 - 1, 2 ** 31, 2 ** 32 + 5, 30 * 2 ** 31])('a timer of %d ms fires on time', (ms) => {
    const fired = jest.fn();
    setTimer(fired, ms);
    jest.advanceTimersByTime(Math.max(0, ms - 1));
    expect(fired).toHaveBeenCalledTimes(ms === 0 ? 1 : 0);
    jest.advanceTimersByTime(1);
    jest.advanceTimersByTime(ms);
    expect(fired).toHaveBeenCalledTimes(1);
  });

  test('a timer of any accepted duration stays within the limit of Node.js and does not fire early', () => {
    const asked = jest.spyOn(globalThis, 'setTimeout');
    fc.assert(
      fc.property(fc.double({ min: 0.000001, max: LONGEST, noNaN: true }), (ms) => {
        const fired = jest.fn();
        const cancel = setTimer(fired, ms);
        // The fake clock rounds: fractions of a millisecond would add up.
        jest.advanceTimersByTime(Math.floor(Math.min(ms / 2, 3 * 2 ** 31)));
        expect(ms > 2 && fired.mock.calls.length > 0).toBe(false);
        cancel();
        expect(jest.getTimerCount()).toBe(0);
      }),
    );
    expect(Math.max(...asked.mock.calls.map(([, ms]) => ms ?? 0))).toBeLessThan(2 ** 31);
    asked.mockRestore();
  });

  test('a timer that is cancelled between its parts never fires', () => {
    const fired = jest.fn();
    const cancel = setTimer(fired, 3 * 2 ** 31);
    jest.advanceTimersByTime(2 * 2 ** 31);
    cancel();
    jest.advanceTimersByTime(2 * 2 ** 31);
    expect(fired).not.toHaveBeenCalled();
    expect(jest.getTimerCount()).toBe(0);
  });
});

test('a sleep ends after its time or with its signal, and leaves no timer', async () => {
  await sleep(1, new AbortController().signal);
  const control = new AbortController();
  const long = sleep(2 ** 40, control.signal);
  control.abort(new Error('enough'));
  await expect(long).rejects.toThrow('enough');
  await expect(sleep(1, control.signal)).rejects.toThrow('enough');
});
