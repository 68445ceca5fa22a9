import { expect, test } from '@jest/globals';
import { QuestionQueue } from '../../../../src/daemon/questions/question-queue.ts';

test('questions that nobody waits for any more take no turn', async () => {
  const queue = new QuestionQueue();
  let worked = 0;
  const work = (): Promise<number> => Promise.resolve(++worked);
  const gone = AbortSignal.abort(new Error('gone'));
  const dead = Array.from({ length: 20_000 }, () => queue.run(work, gone).catch(() => undefined));
  const began = performance.now();
  expect(await queue.run(work, new AbortController().signal)).toBe(1);
  // With a timer for each, it would take 20 s at least.
  expect(performance.now() - began).toBeLessThan(5_000);
  await Promise.all(dead);
});
