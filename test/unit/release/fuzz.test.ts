import { chmod, mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterEach, beforeEach, expect, test } from '@jest/globals';
import { type Ended, runToEnd } from '../../support/program.ts';

/** A node that records the seed, and fails for seed 8. */
const NODE = `#!/bin/sh
echo "$TEST_FAULTS_SEED $TEST_FAULTS_HISTORIES" >>"$(dirname "$0")/seeds"
[ "$TEST_FAULTS_SEED" != 8 ]
`;

let folder: string;

beforeEach(async () => {
  folder = await mkdtemp(path.join(tmpdir(), 'fuzz '));
  await mkdir(path.join(folder, 'bin'));
  await writeFile(path.join(folder, 'bin/node'), NODE);
  await chmod(path.join(folder, 'bin/node'), 0o755);
});

afterEach(async () => {
  await rm(folder, { recursive: true });
});

async function fuzz(...args: readonly string[]): Promise<Ended> {
  const env = { PATH: `${folder}/bin:${process.env['PATH'] ?? ''}`, HISTORIES: '20' };
  return await runToEnd([path.resolve('scripts/fuzz.sh'), ...args], { env });
}

test('fuzz.sh goes from seed to seed until one fails', async () => {
  expect(await fuzz('600', '5')).toMatchObject({ status: 1 });
  expect(await readFile(path.join(folder, 'bin/seeds'), 'utf8')).toBe('5 20\n6 20\n7 20\n8 20\n');
});

test('fuzz.sh ends when the time is over', async () => {
  const { status, stdout } = await fuzz('1', '9');
  expect(status).toBe(0);
  expect(stdout).toMatch(/^fuzz: the histories of \d+ seeds held, in \d+ s\n$/);
});

test.each([[[]], [['x']], [['0']], [['5', 'x']]])('fuzz.sh %j is refused', async (args) => {
  expect(await fuzz(...args)).toMatchObject({ status: 2, stderr: 'usage: fuzz.sh SECONDS [SEED]\n' });
});
