import { afterEach, beforeEach, expect, jest, test } from '@jest/globals';
import { Writable } from 'node:stream';
import { createLog } from '../../../src/observe/log/winston-log.ts';

let now = 0;
let lines: string[] = [];

function open() {
  const stream = new Writable({
    write: (chunk: Buffer, _encoding, done) => {
      lines.push(...chunk.toString().trimEnd().split('\n'));
      done();
    },
  });
  const output = { stdout: stream, stderr: stream, now: () => 0, monotonic: () => now };
  return createLog({ format: 'json', verbosity: 2, vmodule: [], splitStream: false }, output).log;
}

const messages = (): string[] => lines.map((line) => (JSON.parse(line) as { readonly msg: string }).msg);

beforeEach(() => {
  now = 0;
  lines = [];
  jest.useFakeTimers();
});

afterEach(() => {
  jest.useRealTimers();
});

test('a cause that repeats for two minutes has some lines, and one that counts the others each minute', () => {
  const log = open();
  for (let at = 0; at < 10_400; at++) {
    now = (at * 120_000) / 10_400;
    log.warn(`kube-ipvs0 was deleted: full check ${at} started`);
    if (at === 5_200 || at === 10_399) jest.advanceTimersByTime(60_000);
  }
  const found = messages();
  expect(found.slice(0, 2)).toEqual([
    'kube-ipvs0 was deleted: full check 0 started',
    'kube-ipvs0 was deleted: full check 1 started',
  ]);
  expect(found.length).toBeLessThan(60);
  const held = found.flatMap((text) => /^(\d+) lines like this not written/.exec(text)?.[1] ?? []);
  const written = found.filter((text) => text.startsWith('kube-ipvs0'));
  expect(held.reduce((sum, count) => sum + Number(count), written.length)).toBe(10_400);
  expect(found.at(-1)).toMatch(/; the last one: kube-ipvs0 was deleted: full check 10399 started$/);
});

test('lines of other statements and of debug levels are written', () => {
  const log = open();
  for (let at = 0; at < 100; at++) {
    log.error('refused');
    log.debug(2, 'asked for');
  }
  log.error('something else');
  const groups = Map.groupBy(messages(), (text) => text);
  expect(Array.from(groups, ([text, { length }]) => [text, length])).toEqual([
    ['refused', 30],
    ['asked for', 100],
    ['something else', 1],
  ]);
});

test('one line may be written for each ten seconds that have passed', () => {
  const log = open();
  const write = (): void => log.info('again');
  for (let at = 0; at < 30; at++) write();
  expect(messages()).toHaveLength(30);
  now = 25_000;
  for (let at = 0; at < 5; at++) write();
  expect(messages()).toHaveLength(32);
  now = 600_000;
  jest.advanceTimersByTime(60_000);
  expect(messages().at(-1)).toBe('3 lines like this not written, to keep the log short; the last one: again');
  write();
  expect(messages().at(-1)).toBe('again');
});
