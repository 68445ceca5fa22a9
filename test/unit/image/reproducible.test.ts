import { copyFile, mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterEach, beforeEach, expect, test } from '@jest/globals';
import { type Ended, runToEnd } from '../../support/program.ts';

/** A make that installs npm packages, and prints DIGEST, which may name the folder, for an image. */
const MAKE = `#!/bin/sh
case "$*" in
  *deps) mkdir node_modules ;;
  '-C '*' image') [ -d "$2/node_modules" ] && eval "echo $DIGEST image.tar" ;;
esac
`;

let folder: string;

beforeEach(async () => {
  folder = await mkdtemp(path.join(tmpdir(), 'reproducible '));
  await mkdir(path.join(folder, 'scripts/image'), { recursive: true });
  await mkdir(path.join(folder, 'bin'));
  await copyFile('scripts/image/reproducible.sh', path.join(folder, 'scripts/image/reproducible.sh'));
  await writeFile(path.join(folder, 'bin/make'), MAKE, { mode: 0o755 });
  const git = ['git', '-C', folder, '-c', 'user.name=test', '-c', 'user.email=test@example.org'];
  await runToEnd([...git, 'init', '--quiet']);
  await runToEnd([...git, 'commit', '--quiet', '--allow-empty', '--message=test']);
});

afterEach(async () => {
  await rm(folder, { recursive: true });
});

async function compare(digest: string): Promise<Ended> {
  const env = { PATH: `${folder}/bin:${process.env['PATH'] ?? ''}`, DIGEST: digest };
  return await runToEnd([path.join(folder, 'scripts/image/reproducible.sh')], { env });
}

test('two equal images of a fresh clone', async () => {
  const { status, stdout, stderr } = await compare('sha256:1');
  expect({ status, stderr }).toEqual({ status: 0, stderr: '' });
  expect(stdout).toMatch(/^sha256:1 in \S+\/a\nsha256:1 in \S+\/another\/folder\n$/);
});

test('two images that differ', async () => {
  expect(await compare('$2')).toMatchObject({ status: 1, stderr: 'reproducible.sh: the two images differ\n' });
});
