import { copyFile, mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterEach, beforeEach, expect, test } from '@jest/globals';
import { runToEnd } from '../../support/program.ts';

/** A docker that prints its last arguments, and who owns build/. */
const DOCKER = `#!/bin/sh
shift $(($# - 3))
echo "$@"
stat --format=%u build
`;

let folder: string;

beforeEach(async () => {
  folder = await mkdtemp(path.join(tmpdir(), 'in-debian '));
  for (const name of ['scripts', 'bin']) await mkdir(path.join(folder, name));
  for (const name of ['scripts/in-debian.sh', 'Makefile']) await copyFile(name, path.join(folder, name));
  await writeFile(path.join(folder, 'bin/docker'), DOCKER, { mode: 0o755 });
});

afterEach(async () => {
  await rm(folder, { recursive: true });
});

test('in-debian.sh runs a command with the Node.js of the Makefile; build/ belongs to its user, not to root', async () => {
  const env = { PATH: `${folder}/bin:${process.env['PATH'] ?? ''}`, XDG_CACHE_HOME: path.join(folder, 'cache') };
  const { status, stdout, stderr } = await runToEnd([path.join(folder, 'scripts/in-debian.sh'), 'make', 'image'], {
    env,
  });
  expect({ status, stderr }).toEqual({ status: 0, stderr: '' });
  expect(stdout).toMatch(new RegExp(`^node:24\\.[\\d.]+-bookworm make image\n${process.getuid?.()}\n$`));
});
