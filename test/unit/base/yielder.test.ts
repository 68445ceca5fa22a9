import { afterEach, describe, expect, jest, test } from '@jest/globals';
import { Yielder } from '../../../src/base/yielder.ts';

describe('Yielder', () => {
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
    const yielder = new Yielder(budgetMs);
    looks = 0;
    let pieces = 0;
    do {
      now += pieceMs;
      pieces += 1;
    } while (!yielder.due);
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
    const yielder = new Yielder(8);
    for (let piece = 0; piece < 100; piece++) expect(yielder.due).toBe(false);
    now = 9;
    const asked = Array.from({ length: 33 }, () => yielder.due);
    expect(asked).toContain(true);
  });

  test('is due until it has yielded', async () => {
    let now = 0;
    jest.spyOn(performance, 'now').mockImplementation(() => now);
    const yielder = new Yielder(8);
    now = 8;
    expect([yielder.due, yielder.due]).toEqual([true, true]);
    await yielder.yieldIfDue();
    expect(yielder.due).toBe(false);
    now = 16;
    expect(Array.from({ length: 33 }, () => yielder.due).at(-1)).toBe(true);
  });
});
