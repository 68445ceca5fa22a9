import { chmod, copyFile, mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterEach, beforeEach, describe, expect, test } from '@jest/globals';
import { type Ended, runToEnd } from '../../../test/support/program.ts';

/** Stands for both programs: the recorder ends the demo with the status in the file, the other one draws. */
const PROGRAMS = `#!/bin/sh
case $(basename "$0") in
  asciinema) cp status build/demo.status ;;
  termtosvg) echo "<svg width='1'>$2</svg>" >"$3" ;;
esac
`;

let folder: string;

beforeEach(async () => {
  folder = await mkdtemp(path.join(tmpdir(), 'record '));
  for (const name of ['scripts', 'docs', 'bin']) await mkdir(path.join(folder, name));
  await copyFile('scripts/record-demo.sh', path.join(folder, 'scripts/record-demo.sh'));
  for (const name of ['asciinema', 'termtosvg']) {
    await writeFile(path.join(folder, 'bin', name), PROGRAMS);
    await chmod(path.join(folder, 'bin', name), 0o755);
  }
  await writeFile(path.join(folder, 'docs/demo.svg'), 'before');
});

afterEach(async () => {
  await rm(folder, { recursive: true });
});

async function record(...args: readonly string[]): Promise<Ended> {
  const env = { PATH: `${folder}/bin:${process.env['PATH'] ?? ''}` };
  return await runToEnd([path.join(folder, 'scripts/record-demo.sh'), ...args], { env });
}

async function drawn(): Promise<string> {
  return await readFile(path.join(folder, 'docs/demo.svg'), 'utf8');
}

describe('the recording of the demo', () => {
  test('a demo that passed is drawn, with the columns of its tables', async () => {
    await writeFile(path.join(folder, 'status'), '0\n');
    expect(await record()).toMatchObject({ status: 0, stderr: '' });
    expect(await drawn()).toBe(`<svg xml:space="preserve" width='1'>build/demo.cast</svg>\n`);
  });

  test('a demo that failed is not drawn', async () => {
    await writeFile(path.join(folder, 'status'), '1\n');
    expect(await record()).toMatchObject({ status: 1, stderr: expect.stringContaining('the demo failed') });
    expect(await drawn()).toBe('before');
  });

  test('an earlier recording is drawn without a demo', async () => {
    expect(await record('build/other.cast')).toMatchObject({ status: 0 });
    expect(await drawn()).toContain('build/other.cast');
  });

  test('docs/demo.svg shows a demo that passed', async () => {
    expect(await readFile('docs/demo.svg', 'utf8')).toMatch(/demo:.{0,2}all.{0,2}\d+.{0,2}checks.{0,2}passed/u);
  });
});
