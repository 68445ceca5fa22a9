import { afterEach, describe, expect, jest, test } from '@jest/globals';
import { Pace } from '../../../src/base/pace.ts';

describe('Pace', () => {
  afterEach(() => {
    jest.restoreAllMocks();
  });

  /** Asks after pieces of work of this length until the budget is used up; answers how many it took, and how often the clock was read. */
  function work(pieceMs: number, budgetMs: number): { pieces: number; looks: number } {
    let now = 1_000;
    let looks = 0;
    jest.spyOn(performance, 'now').mockImplementation(() => {
      looks += 1;
      return now;
    });
    const pace = new Pace(budgetMs);
    looks = 0;
    let pieces = 0;
    do {
      now += pieceMs;
      pieces += 1;
    } while (!pace.due);
    return { pieces, looks };
  }

  test('of small pieces it sees one of thirty-two, and is late by no more than that', () => {
    const { pieces, looks } = work(0.01, 8);
    expect(pieces).toBeGreaterThanOrEqual(800);
    expect(pieces).toBeLessThanOrEqual(832);
    expect(looks).toBeLessThanOrEqual(32);
  });

  test('large pieces are seen one by one', () => {
    expect(work(3, 8)).toEqual({ pieces: 3, looks: 3 });
    expect(work(20, 8)).toEqual({ pieces: 1, looks: 1 });
  });

  test('pieces that no clock can tell apart do not stop it from looking', () => {
    let now = 0;
    jest.spyOn(performance, 'now').mockImplementation(() => now);
    const pace = new Pace(8);
    for (let piece = 0; piece < 100; piece++) expect(pace.due).toBe(false);
    now = 9;
    const asked = Array.from({ length: 33 }, () => pace.due);
    expect(asked).toContain(true);
  });

  test('used up until it begins anew', () => {
    let now = 0;
    jest.spyOn(performance, 'now').mockImplementation(() => now);
    const pace = new Pace(8);
    now = 8;
    expect([pace.due, pace.due]).toEqual([true, true]);
    pace.renew();
    expect(pace.due).toBe(false);
    now = 16;
    expect(Array.from({ length: 33 }, () => pace.due).at(-1)).toBe(true);
  });
});
