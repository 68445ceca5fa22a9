import { copyFile, mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { crc32 } from 'node:zlib';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { type Ended, PROGRAM, runToEnd } from '../support/program.ts';

const NAME = 'kube-ipvs-proxy';
const FILES = ['mjs', 'js', 'cache'].map((ending) => `${NAME}.${ending}`);

/** A script for --require that removes features which an older Node.js lacks. */
const OLDER = (version: string): string => `
  Object.defineProperty(process, 'versions', { value: { ...process.versions, node: '${version}' } });
  process.getBuiltinModule = undefined;
  globalThis.AsyncDisposableStack = undefined;
`;

/** A script for --require that prints whether V8 took the code cache: undefined means that it was given none. */
const TELL_CACHE = `
  const vm = require('node:vm');
  vm.Script = class extends vm.Script {
    constructor(...parameters) {
      super(...parameters);
      console.log('rejected: ' + this.cachedDataRejected);
    }
  };
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

  describe('the code cache', () => {
    const file = (ending: string): string => path.join(folder, `${NAME}.${ending}`);
    let preload: string;
    let compiled: Buffer;

    beforeAll(async () => {
      preload = path.join(folder, 'tell-cache.cjs');
      await writeFile(preload, TELL_CACHE);
      compiled = await readFile(file('cache'));
    });

    /** A start that ends where the daemon reads its credentials. */
    const start = (): Promise<Ended> =>
      runToEnd([process.execPath, '--require', preload, file('mjs'), '--proxy-mode=ipvs', '--kubeconfig=/nonexistent']);
    const AS_EVER = {
      status: 1,
      stderr: expect.stringMatching(/^E.*"failed to read kubeconfig \/nonexistent: it does/),
    };

    test('is of the bundle and of this V8', async () => {
      expect(await start()).toMatchObject({ ...AS_EVER, stdout: 'rejected: false\n' });
    });

    test('is the same each time it is made, whatever the environment and the standard streams are', async () => {
      const again = path.join(folder, 'again.cache');
      await runToEnd([process.execPath, 'scripts/compile.ts', file('js'), again], {
        env: { A_VARIABLE: 'a'.repeat(999) },
      });
      expect(compiled.equals(await readFile(again))).toBe(true);
    });

    test('of another V8 is not used', async () => {
      const data = Buffer.from(compiled.subarray(8));
      // The hash of V8's version follows a magic number.
      data.writeUInt32LE(1, 4);
      const sums = Buffer.from(compiled.subarray(0, 8));
      sums.writeUInt32LE(crc32(data), 4);
      await writeFile(file('cache'), Buffer.concat([sums, data]));
      expect(await start()).toMatchObject({ ...AS_EVER, stdout: 'rejected: true\n' });
    });

    test('of another bundle of the same length is not used', async () => {
      const text = await readFile(file('js'), 'latin1');
      await writeFile(file('cache'), compiled);
      await writeFile(file('js'), text.replace('"use strict"', '"use STRICT"'));
      expect(await start()).toMatchObject({ ...AS_EVER, stdout: 'rejected: undefined\n' });
      await writeFile(file('js'), text);
    });

    test.each([
      // V8 itself would end the process.
      ['damaged', (bytes: Buffer) => bytes.fill(0xff, bytes.length / 2, bytes.length / 2 + 64)],
      ['cut short', (bytes: Buffer) => bytes.subarray(0, bytes.length / 2)],
      ['empty', () => Buffer.alloc(0)],
    ])('that is %s is not used', async (_case, change) => {
      await writeFile(file('cache'), change(Buffer.from(compiled)));
      expect(await start()).toMatchObject({ ...AS_EVER, stdout: 'rejected: undefined\n' });
    });

    test('may be missing, and is not written then', async () => {
      await rm(file('cache'));
      expect(await start()).toMatchObject({ ...AS_EVER, stdout: 'rejected: undefined\n' });
      await expect(readFile(file('cache'))).rejects.toThrow('ENOENT');
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
