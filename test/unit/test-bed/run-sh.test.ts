import { spawn } from 'node:child_process';
import { mkdtemp, readdir, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

import { afterAll, beforeAll, describe, expect, jest, test } from '@jest/globals';

jest.setTimeout(180_000);

interface Ended {
  readonly status: number | null;
  readonly stdout: string;
  readonly stderr: string;
}

// Each of these boots a kernel, or enters namespaces where the machine's own kernel has IPVS.
describe('test/kernel/run.sh', () => {
  let folder: string;

  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), 'run-sh-'));
  });

  afterAll(async () => {
    await rm(folder, { recursive: true });
  });

  /** `started` is told once the command has written something; then a signal can be sent. */
  function runSh(args: string[], env: NodeJS.ProcessEnv = {}, started?: (kill: (s: NodeJS.Signals) => void) => void) {
    const child = spawn('test/kernel/run.sh', args, { env: { ...process.env, TMPDIR: folder, ...env } });
    const out: Buffer[] = [];
    const err: Buffer[] = [];
    child.stderr.on('data', (data: Buffer) => err.push(data));
    child.stdout.on('data', (data: Buffer) => out.push(data));
    child.stdout.once('data', () => started?.((signal) => child.kill(signal)));
    return new Promise<Ended>((resolve, reject) => {
      child.on('error', reject);
      child.on('close', (status) => {
        resolve({ status, stdout: Buffer.concat(out).toString(), stderr: Buffer.concat(err).toString() });
      });
    });
  }

  test('passes status, arguments, environment and output through, and nothing else', async () => {
    const script = [
      String.raw`printf '%s|' "$#" "$@" "$CI" "$FILTER" "$TEST_NOTE" "$NAMED" "\${UNNAMED-none}" "$PWD"`,
      String.raw`printf 'a\tb\r\nc\0d' ; echo complaint >&2 ; exit 7`,
    ].join('\n');
    const args = ['two words', `it's "quoted" $HOME \\ *`, '', 'new\nline', 'ünïcode'];
    const ended = await runSh(['sh', '-c', script.replace('\\${', '${'), 'sh', ...args], {
      CI: 'yes',
      FILTER: 'a b',
      TEST_NOTE: "it's",
      NAMED: '1',
      UNNAMED: '2',
      KERNEL_ENV: 'NAMED',
    });
    const values = ['5', ...args, 'yes', 'a b', "it's", '1', 'none', process.cwd()];
    expect(ended.stdout).toBe(`${values.join('|')}|a\tb\r\nc\0d`);
    expect(ended.stderr).toMatch(/^test kernel: (native|User-Mode Linux|QEMU), [^\n]*\ncomplaint\n$/);
    expect(ended.status).toBe(7);
  });

  test('two at the same time do not disturb each other', async () => {
    const ends = await Promise.all(
      ['one', 'two'].map((name) =>
        runSh(['sh', '-c', `ip netns add ${name}; touch /tmp/mark-${name}; sleep 2; ip netns list; ls /tmp/mark-*`]),
      ),
    );
    expect(ends.map((ended) => ended.stdout)).toEqual(['one\n/tmp/mark-one\n', 'two\n/tmp/mark-two\n']);
  });

  test('a signal ends it and all it started', async () => {
    const ended = await runSh(['sh', '-c', 'echo up; sleep 600'], {}, (kill) => {
      kill('SIGTERM');
    });
    expect(ended).toMatchObject({ status: 143, stdout: 'up\n' });
    expect(await readdir(folder)).toEqual([]);
  });

  test('a process left behind does not keep it', async () => {
    const ended = await runSh(['sh', '-c', 'sleep 600 & echo started']);
    expect(ended).toMatchObject({ status: 0, stdout: 'started\n' });
  });

  test('a command that takes too long is killed, with a status of its own', async () => {
    const ended = await runSh(['sleep', '600'], { KERNEL_TIMEOUT: '4' });
    expect(ended.status).toBe(124);
    expect(ended.stderr).toContain('killed after KERNEL_TIMEOUT=4 seconds');
    expect(await readdir(folder)).toEqual([]);
  });

  test.each([
    [{ KERNEL: 'none' }, 'KERNEL is native, uml or qemu, not: none'],
    [{ KERNEL_TIMEOUT: 'long' }, 'KERNEL_TIMEOUT is not a number of seconds: long'],
    [{ KERNEL_MEMORY: 'lots' }, 'KERNEL_MEMORY is not a size like 3G or 512M: lots'],
  ])('a wrong setting is said in one sentence: %o', async (env, sentence) => {
    expect(await runSh(['true'], env)).toEqual({ status: 125, stdout: '', stderr: `test kernel: ${sentence}\n` });
  });
});
