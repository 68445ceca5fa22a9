import { execFile } from 'node:child_process';
import { createRequire } from 'node:module';
import { resolve } from 'node:path';
import { promisify } from 'node:util';
import { describe, expect, test } from '@jest/globals';
import type { RunProcess } from '../../../src/netlink/addon.ts';

// The addon as JavaScript without types may call it, and as it ends; what programs get and give: test/unit/kernel/command-runner.test.ts.

const ADDON = resolve(import.meta.dirname, '../../../build/native/netlink_socket.node');
const { runProcess } = createRequire(import.meta.url)(ADDON) as { runProcess: RunProcess };
const loose = runProcess as unknown as (...args: unknown[]) => Promise<unknown>;
const none = new Uint8Array();
const text = (bytes: Uint8Array): string => Buffer.from(bytes).toString();

const throwing: string[] = [];
Object.defineProperty(throwing, 0, {
  enumerable: true,
  get: () => {
    throw new RangeError('from the getter');
  },
});

describe('arguments', () => {
  test.each<[string, unknown[]]>([
    ['nothing', []],
    ['text in place of an array', ['/bin/true', [], none, 1000, 0]],
    ['no program', [[], [], none, 1000, 0]],
    ['a program without a name', [[''], [], none, 1000, 0]],
    ['an argument that is no text', [['/bin/true', 1], [], none, 1000, 0]],
    ['an argument with NUL', [['/bin/true', 'a\0b'], [], none, 1000, 0]],
    ['an array of nothing', [Array.from({ length: 3 }), [], none, 1000, 0]],
    ['an array that throws', [throwing, [], none, 1000, 0]],
    ['an environment that is an object', [['/bin/true'], { A: 'b' }, none, 1000, 0]],
    ['an environment with NUL', [['/bin/true'], ['A=\0'], none, 1000, 0]],
    ['input that is text', [['/bin/true'], [], 'in', 1000, 0]],
    ['input of another type', [['/bin/true'], [], new Uint32Array(1), 1000, 0]],
    ['no deadline', [['/bin/true'], [], none, undefined, 0]],
    ['a deadline in the past', [['/bin/true'], [], none, 0, 0]],
    ['a negative bound', [['/bin/true'], [], none, 1000, -1]],
    ['a bound beyond what can be kept', [['/bin/true'], [], none, 1000, 2 ** 30]],
  ])('%s', (_, args) => {
    expect(() => loose(...args)).toThrow(/must be|must begin|from the getter/);
  });

  test('are copied before it returns', async () => {
    const input = new TextEncoder().encode('before');
    const argv = ['sh', '-c', 'sleep 0.05; cat; printf %s "$A"'];
    const env = ['PATH=/usr/bin:/bin', 'A= the change'];
    const promise = runProcess(argv, env, input, 10_000, 1000);
    input.fill(0);
    argv.length = 0;
    env.length = 0;
    const { status, signal, stdout } = await promise;
    expect({ status, signal, stdout: text(stdout) }).toEqual({ status: 0, signal: 0, stdout: 'before the change' });
  });
});

describe('ends', () => {
  const shell = (script: string, deadlineMs = 10_000, maxOutput = 1000): ReturnType<RunProcess> =>
    runProcess(['/bin/sh', '-c', script], ['PATH=/usr/bin:/bin'], none, deadlineMs, maxOutput);

  test('by a signal', async () => {
    expect(await shell('kill -TERM $$')).toMatchObject({ status: -1, signal: 15 });
  });

  test('with as much output as allowed, on each stream', async () => {
    const { stdout, stderr } = await shell('printf %01000d 0; printf %01000d 0 >&2');
    expect([stdout.length, stderr.length]).toEqual([1000, 1000]);
  });

  test('for too much output, on either stream', async () => {
    const failure = { operation: 'read from program', errno: 27, sent: 0 };
    await expect(shell('printf %01001d 0; sleep 30')).rejects.toMatchObject(failure);
    await expect(shell('printf %01001d 0 >&2; sleep 30')).rejects.toMatchObject(failure);
  });

  test('at the deadline', async () => {
    await expect(shell('sleep 30', 50)).rejects.toMatchObject({ operation: 'wait for program', errno: 110 });
  });

  test('before it began', async () => {
    const start = (program: string, ...env: string[]): ReturnType<RunProcess> =>
      runProcess([program], env, none, 10_000, 0);
    await expect(start('true')).rejects.toMatchObject({ operation: 'find program', errno: 2 });
    await expect(start('true', 'XPATH=/bin', 'PATH=')).rejects.toMatchObject({ errno: 2 });
    await expect(start('/no/such/program')).rejects.toMatchObject({ operation: 'start program', errno: 2 });
    await expect(start('/dev/null')).rejects.toMatchObject({ operation: 'start program', errno: 13 });
    expect(await start('true', 'PATH=/usr/bin:/bin')).toMatchObject({ status: 0 });
  });
});

// A process of its own each: an ended process must not take the tests along.
describe('a Node process', () => {
  const prelude = `
    const { runProcess } = require(${JSON.stringify(ADDON)});
    const start = (script, deadlineMs) => runProcess(['/bin/sh', '-c', script], ['PATH=/usr/bin:/bin'], new Uint8Array(), deadlineMs, 1000);`;
  const script = async (body: string): Promise<string> =>
    (await promisify(execFile)(process.execPath, ['-e', prelude + body], { timeout: 60_000 })).stdout;

  test('lives until its program has ended', async () => {
    expect(await script(`start('sleep 0.2', 10_000).then(({ status }) => console.log('status', status));`)).toBe(
      'status 0\n',
    );
  });

  test('may exit before its program has ended, and does not wait for it', async () => {
    const before = Date.now();
    const body = `start('sleep 20', 60_000); setTimeout(() => { console.log('gone'); process.exit(0); }, 100);`;
    expect(await script(body)).toBe('gone\n');
    expect(Date.now() - before).toBeLessThan(15_000);
  });

  test('outlives a worker that was terminated while its program ran', async () => {
    const worker = `${prelude} start('sleep 0.5; echo x', 10_000); require('node:worker_threads').parentPort.postMessage(1);`;
    const body = `
      const { Worker } = require('node:worker_threads');
      const worker = new Worker(${JSON.stringify(worker)}, { eval: true });
      worker.once('message', () => worker.terminate().then(() => setTimeout(() => console.log('still here'), 1500)));`;
    const { stdout } = await promisify(execFile)(process.execPath, ['-e', body], { timeout: 60_000 });
    expect(stdout).toBe('still here\n');
  });

  test('reads files while more programs run than its pool has threads', async () => {
    const body = `
      let ended = 0;
      const programs = Array.from({ length: 8 }, () => start('sleep 3', 10_000).then(() => ended++));
      require('node:fs/promises').readFile('/proc/self/status').then(() => console.log('read', ended));
      Promise.all(programs).then(() => console.log('ended', ended));`;
    expect(await script(body)).toBe('read 0\nended 8\n');
  });
});
