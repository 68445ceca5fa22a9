import { mkdir, mkdtemp, rm, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterEach, beforeEach, expect, test } from '@jest/globals';
import { imageKey } from '../../cluster/images/image-key.ts';

let folder: string;

beforeEach(async () => {
  folder = await mkdtemp(path.join(tmpdir(), 'image-key-'));
});

afterEach(() => rm(folder, { recursive: true }));

test('what a link out of the image leads to is not a part of it', async () => {
  const [root, outside] = [path.join(folder, 'root'), path.join(folder, 'outside')];
  await mkdir(path.join(root, 'var'), { recursive: true });
  await mkdir(outside);
  await symlink(outside, path.join(root, 'var/run'));
  const key = (): string => imageKey([{ names: ['x'], layers: [{ folder: root }] }]);
  const before = key();
  await writeFile(path.join(outside, 'changes-at-any-time'), '');
  expect(key()).toBe(before);
  await writeFile(path.join(root, 'var/file'), '');
  expect(key()).not.toBe(before);
});
