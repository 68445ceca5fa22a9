import { mkdtemp, readdir, rm, stat, utimes } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterAll, beforeAll, describe, expect, jest, test } from '@jest/globals';
import { type Ended, runToEnd } from '../../../test/support/program.ts';

jest.setTimeout(60_000);

const MACHINE = path.resolve('lab/kernel/machine');

// The kernel of every x86-64 machine refuses a buffer that is smaller than its full state, with AMX or without.
describe('the library that is preloaded into User-Mode Linux', () => {
  let folder: string;
  let tracer: string;

  beforeAll(async () => {
    folder = await mkdtemp(path.join(tmpdir(), 'xstate-'));
    tracer = path.join(folder, 'traced-child');
    const source = path.resolve('lab/test/machine/traced-child.cc');
    const argv = ['g++', '-std=c++20', '-Wall', '-Wextra', '-Werror', source, '-o', tracer];
    const { stderr } = await runToEnd(argv);
    if (stderr !== '') throw new Error(stderr);
  });

  afterAll(async () => {
    await rm(folder, { recursive: true });
  });

  const library = (project: string): string => path.join(project, 'build/kernel/ptrace-xstate.so');

  /** As run.sh does for a checkout in that folder. */
  function compile(project: string, env: NodeJS.ProcessEnv = {}): Promise<Ended> {
    const script = 'project=$0 machine=$1; . "$machine/uml.sh"; uml_preload';
    return runToEnd(['bash', '-c', script, project, MACHINE], { env: { ...process.env, ...env } });
  }

  test('registers from a buffer that is too short are refused without the preloaded library, and written with it; all others stay intact', async () => {
    expect(await compile(folder)).toEqual({ status: 0, stdout: '', stderr: '' });
    const plain = await runToEnd([tracer]);
    // Where ptrace is not permitted, this says so.
    expect(plain).toMatchObject({ status: 0, stderr: '' });
    const whole = { result: 0, error: '0', intact: true };
    const nobody = { result: -1, error: 'ESRCH' };
    expect(JSON.parse(plain.stdout)).toEqual({
      short: { result: -1, error: expect.stringMatching(/^(EFAULT|EINVAL)$/), intact: false },
      whole,
      nobody,
    });

    const preloaded = await runToEnd([tracer], { env: { ...process.env, LD_PRELOAD: library(folder) } });
    expect(preloaded).toMatchObject({ status: 0, stderr: '' });
    expect(JSON.parse(preloaded.stdout)).toEqual({ short: whole, whole, nobody });
  });

  test('the preloaded library is compiled once, also by concurrent runs, and again when its source is newer', async () => {
    const project = path.join(folder, 'checkout');
    const all = await Promise.all([1, 2, 3].map(() => compile(project)));
    expect(all.map(({ status }) => status)).toEqual([0, 0, 0]);
    expect(await readdir(path.join(project, 'build/kernel'))).toEqual(['ptrace-xstate.so']);

    const { ino } = await stat(library(project));
    expect(await compile(project, { CXX: '/nonexistent' })).toMatchObject({ status: 0 });
    expect((await stat(library(project))).ino).toBe(ino);

    await utimes(library(project), 0, 0);
    expect(await compile(project)).toMatchObject({ status: 0 });
    expect((await stat(library(project))).mtimeMs).toBeGreaterThan(0);
  });

  test('if the preloaded library cannot be compiled or stored, one sentence says so', async () => {
    const [readOnly, bare] = ['/proc/checkout', path.join(folder, 'bare')];
    expect(await compile(readOnly)).toEqual({
      status: 1,
      stdout: `its helper is not compiled yet and ${readOnly}/build/kernel cannot be written, run it once as a user who can\n`,
      stderr: '',
    });
    const { status, stdout, stderr } = await compile(bare, { CXX: '/nonexistent' });
    expect(stdout).toMatch(
      /^its helper .+\/ptrace-xstate.cc cannot be compiled \(.*No such file.*\), run: make deps\n$/,
    );
    expect({ status, stderr }).toEqual({ status: 1, stderr: '' });
    expect(await readdir(path.join(bare, 'build/kernel'))).toEqual([]);
  });
});
