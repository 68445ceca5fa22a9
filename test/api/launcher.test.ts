import { copyFile, mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { PROGRAM, runToEnd } from '../support/program.ts';

const NAME = 'kube-ipvs-proxy';
const FILES = ['mjs', 'js'].map((ending) => `${NAME}.${ending}`);

/** A script for --require that removes features which an older Node.js lacks. */
const OLDER = (version: string): string => `
  Object.defineProperty(process, 'versions', { value: { ...process.versions, node: '${version}' } });
  process.getBuiltinModule = undefined;
  globalThis.AsyncDisposableStack = undefined;
`;

describe('the launcher', () => {
  let folder: string;

  beforeAll(async () => {
    folder = await mkdtemp(path.join(tmpdir(), 'launcher-'));
    for (const name of FILES) await copyFile(path.join(path.dirname(PROGRAM), name), path.join(folder, name));
  });

  afterAll(async () => {
    await rm(folder, { recursive: true });
  });

  test('the launcher starts the program next to it, whose version names the commit and the date of the build', async () => {
    const { status, stdout } = await runToEnd([path.join(folder, `${NAME}.mjs`), '--version']);
    expect({ status, stdout }).toEqual({
      status: 0,
      stdout: expect.stringMatching(
        /^kube-ipvs-proxy v\S+ \(commit (unknown|[\da-f]{12}), built (unknown|\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ)\)\n$/,
      ),
    });
  });

  describe('under a Node.js that is too old', () => {
    let program: string;
    let bin: string;
    let preload: string;
    let needed: string;

    beforeAll(async () => {
      await mkdir(path.join(folder, 'old/build'), { recursive: true });
      program = path.join(folder, 'old/build', `${NAME}.mjs`);
      // Only the launcher is copied: it must not load the rest of the program.
      await copyFile(PROGRAM, program);
      bin = path.join(folder, `old/.node/node_modules/node-linux-${process.arch}/bin`);
      preload = path.join(folder, 'older.cjs');
      const { engines } = JSON.parse(await readFile('package.json', 'utf8')) as { engines: { node: string } };
      needed = engines.node.replace('>=', '');
    });

    const refusal = (node: string, version: string, remedy: string): string =>
      `kube-ipvs-proxy needs Node.js ${needed} or newer, but ${node} is ${version}: ${remedy}\n`;

    test.each(['12.22.12', '20.20.2', '22.18.0'])(
      'Node.js %s is refused with one sentence that names a newer one if make build installed it',
      async (version) => {
        await writeFile(preload, OLDER(version));
        const argv = [process.execPath, '--require', preload, program, '--version'];
        const none = 'install one, or run `make build`, which puts one into .node of its folder';
        expect(await runToEnd(argv)).toEqual({
          status: 1,
          stdout: '',
          stderr: refusal(process.execPath, version, none),
        });

        await mkdir(bin, { recursive: true });
        await writeFile(path.join(bin, 'node'), '');
        const there = `\`make build\` left one in ${bin}, put that folder first in PATH`;
        expect((await runToEnd(argv)).stderr).toBe(refusal(process.execPath, version, there));
        await rm(path.join(folder, 'old/.node'), { recursive: true });
      },
    );

    test.each(['22.19.0', '23.0.0', '100.1.0'])('Node.js %s is accepted', async (version) => {
      const older = OLDER(version).replace(/process\.getBuiltinModule.*|globalThis.*/g, '');
      await writeFile(preload, older);
      const argv = [process.execPath, '--require', preload, path.join(folder, `${NAME}.mjs`), '--version'];
      expect(await runToEnd(argv)).toMatchObject({ status: 0, stdout: expect.stringMatching(/^kube-ipvs-proxy v/) });
    });
  });
});
