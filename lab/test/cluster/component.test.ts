import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterEach, beforeEach, expect, test } from '@jest/globals';
import { type Part, until } from '../../cluster/component.ts';

let folder: string;
let component: Part;

beforeEach(async () => {
  folder = await mkdtemp(path.join(tmpdir(), 'component-'));
  const [log, absent] = [path.join(folder, 'etcd.log'), path.join(folder, 'absent.log')];
  component = { name: 'etcd', logs: [absent, log], endFile: path.join(folder, 'etcd.end') };
  await writeFile(log, Array.from({ length: 20 }, (_, index) => `line ${index}\n`).join(''));
});

afterEach(() => rm(folder, { recursive: true }));

test('waits until nothing is missing', async () => {
  const answers = ['not ready', undefined];
  await until(component, 60, () => Promise.resolve(answers.shift()));
  expect(answers).toEqual([]);
});

test('a component that has ended is blamed, with the last lines of the logs that it has', async () => {
  await writeFile(component.endFile, 'status 3\n');
  const waiting = until(component, 60, () => Promise.resolve('not ready'));
  await expect(waiting).rejects.toThrow(
    `etcd: ended with status 3\nthe end of ${folder}/etcd.log:\nline 12\nline 13\nline 14`,
  );
  await expect(waiting).rejects.toThrow(/line 19$/);
});

test('one that takes too long is blamed for what is missing', async () => {
  await expect(until(component, 0, () => Promise.resolve('not ready'))).rejects.toThrow('etcd: not ready after 0 s\n');
});
