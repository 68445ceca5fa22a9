import { hash } from 'node:crypto';
import { copyFile, mkdtemp, readFile, readdir, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { PROGRAM, TAKES_COMPILED, runToEnd } from '../support/program.ts';

const NAME = 'kube-ipvs-proxy';
const FILES = ['mjs', 'js', 'cache'].map((ending) => `${NAME}.${ending}`);

describe('the program', () => {
  let folder: string;
  let compiled: Buffer;

  beforeAll(async () => {
    folder = await mkdtemp(path.join(tmpdir(), 'launcher-'));
    for (const name of FILES) await copyFile(path.join(path.dirname(PROGRAM), name), path.join(folder, name));
    compiled = await readFile(cache());
  });

  afterAll(async () => {
    await rm(folder, { recursive: true });
  });

  const cache = (): string => path.join(folder, `${NAME}.cache`);

  async function takes(): Promise<string> {
    const argv = [process.execPath, '-e', TAKES_COMPILED, path.join(folder, NAME)];
    const { stdout, stderr } = await runToEnd(argv);
    return (stdout + stderr).trim();
  }

  /** What a start by the first line of the file says, which ends where it looks for its credentials. */
  async function start(): Promise<string> {
    const { status, stderr } = await runToEnd([
      path.join(folder, `${NAME}.mjs`),
      '--proxy-mode=ipvs',
      '--kubeconfig=/nonexistent',
    ]);
    return `${status} ${stderr}`;
  }

  const AS_EVER = /^1 E.* cannot read kubeconfig \/nonexistent: it does not exist; .*\n$/;

  test('was compiled when it was built', async () => {
    expect(await takes()).toBe('taken');
    expect(await start()).toMatch(AS_EVER);
  });

  test('is compiled anew where the file is of another V8', async () => {
    const data = Buffer.from(compiled.subarray(64));
    // A magic number, then a hash of V8's version.
    data.writeUInt32LE(1, 4);
    const file = Buffer.concat([compiled.subarray(0, 32), hash('sha256', data, 'buffer'), data]);
    await writeFile(cache(), file);
    expect(await takes()).toBe('refused');
    expect(await start()).toMatch(AS_EVER);
    expect((await readFile(cache())).equals(file)).toBe(true);
  });

  test('is compiled anew where the file is of another text, were it as long', async () => {
    const program = path.join(folder, `${NAME}.js`);
    const text = await readFile(program, 'latin1');
    await writeFile(cache(), compiled);
    await writeFile(program, text.replaceAll('it does not exist', 'it DOES NOT exist'));
    expect(await start()).toMatch(/: it DOES NOT exist;/);
    await writeFile(program, text);
  });

  test.each([
    // V8 itself would end the process.
    ['damaged', (bytes: Buffer) => bytes.fill(0xff, bytes.length / 2, bytes.length / 2 + 64)],
    ['cut short', (bytes: Buffer) => bytes.subarray(0, bytes.length / 2)],
    ['empty', () => Buffer.alloc(0)],
  ])('is compiled anew where the file is %s', async (_case, change) => {
    await writeFile(cache(), change(Buffer.from(compiled)));
    expect(await start()).toMatch(AS_EVER);
  });

  test('is compiled anew where there is no such file, and writes none', async () => {
    await rm(cache());
    expect(await start()).toMatch(AS_EVER);
    expect((await readdir(folder)).toSorted()).toEqual(FILES.filter((name) => !name.endsWith('.cache')).toSorted());
  });
});
