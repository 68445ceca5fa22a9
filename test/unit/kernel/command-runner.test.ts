import { randomUUID } from 'node:crypto';
import {
  chmodSync,
  closeSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  openSync,
  readdirSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, test } from '@jest/globals';
import { createCommandRunner } from '../../../src/kernel/command-runner.ts';

const runner = createCommandRunner();

/** Output of `true` or a program that is as sure to end well. */
const QUIET = { status: 0, stdout: '', stderr: '' };

async function waitUntil(condition: () => boolean, what: string): Promise<void> {
  for (let attempt = 0; attempt < 500; attempt++) {
    if (condition()) return;
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
  throw new Error(`waited in vain: ${what}`);
}

/** What this process has open, by whether its programs get it too. */
function descriptors(): { readonly closedOnExec: number[]; readonly passedOn: number[] } {
  const closeOnExec = 0o2000000;
  const closedOnExec: number[] = [];
  const passedOn: number[] = [];
  for (const name of readdirSync('/proc/self/fdinfo')) {
    // The folder itself is in its list, and closed by now.
    if (!existsSync(`/proc/self/fdinfo/${name}`)) continue;
    const flags = /^flags:\t(\d+)$/m.exec(readFileSync(`/proc/self/fdinfo/${name}`, 'utf8'))?.[1] ?? '';
    ((Number.parseInt(flags, 8) & closeOnExec) === 0 ? passedOn : closedOnExec).push(Number(name));
  }
  return { closedOnExec, passedOn };
}

const isAlive = (pid: number): boolean => {
  try {
    process.kill(pid, 0);
    return true;
  } catch {
    return false;
  }
};

describe('the command runner', () => {
  test('a program ends when its signal aborts', async () => {
    const ended = new AbortController();
    const running = runner.run('sleep', ['60'], { signal: ended.signal });
    setTimeout(() => ended.abort(), 100);
    await expect(running).rejects.toMatchObject({
      code: 'ENDED',
      message: 'sleep was not wanted any more and was killed',
    });
  });

  test('the command runner passes arguments and input unchanged, without a shell', async () => {
    let started = 0;
    const counting = createCommandRunner({ onStart: () => started++ });
    const argument = '$(id); "x" *';
    const result = await counting.run('sh', ['-c', 'cat; printf %s "$1"; echo oops >&2; exit 3', 'sh', argument], {
      stdin: 'in ',
    });
    expect(result).toEqual({ status: 3, stdout: `in ${argument}`, stderr: 'oops\n' });
    expect(started).toBe(1);
  });

  test('the command runner refuses an argument with a NUL', async () => {
    await expect(runner.run('printf', ['a\0b'])).rejects.toThrow('without null bytes');
  });

  test('the error of the command runner names the missing program', async () => {
    for (const program of ['no-such-program-here', '/no/such/program']) {
      await expect(runner.run(program, [])).rejects.toMatchObject({
        code: 'MISSING_COMMAND',
        message: expect.stringContaining(program),
      });
    }
  });

  test('the command runner distinguishes an exit from a death by signal', async () => {
    expect(await runner.run('sh', ['-c', 'exit 255'])).toMatchObject({ status: 255 });
    expect(await runner.run('sh', ['-c', 'echo before; kill -TERM $$'])).toEqual({
      status: -1,
      signal: 'SIGTERM',
      stdout: 'before\n',
      stderr: '',
    });
    // Not the deadline: something else killed it, such as the kernel when memory is short.
    expect(await runner.run('sh', ['-c', 'kill -KILL $$'])).toMatchObject({ status: -1, signal: 'SIGKILL' });
  });

  test('the command runner runs many programs at once, each with its own input and output', async () => {
    const texts = Array.from({ length: 20 }, (_, i) => `${i} `.repeat(20_000));
    const results = await Promise.all(texts.map((stdin) => runner.run('cat', [], { stdin })));
    expect(results.map(({ stdout }) => stdout)).toEqual(texts);
  });
});

describe('what a program gets', () => {
  test('the environment of a program is PATH and LC_ALL', async () => {
    const { stdout } = await runner.run('/usr/bin/env', []);
    expect(stdout.split('\n').sort()).toEqual([
      '',
      'LC_ALL=C',
      `PATH=${process.env['PATH']}:/usr/local/sbin:/usr/sbin:/sbin:/usr/bin:/bin`,
    ]);
  });

  test('a program inherits only its three streams and what this process was started with', async () => {
    const held = openSync('/dev/null', 'r');
    const own = descriptors();
    const { stdout } = await runner.run('ls', ['/proc/self/fd']);
    closeSync(held);
    expect(own.closedOnExec).toContain(held);
    // The fourth is the folder that ls reads; or it has that open at the next free number.
    const expected = new Set([0, 1, 2, 3, ...own.passedOn]);
    const unexpected = stdout
      .trim()
      .split('\n')
      .map(Number)
      .filter((fd) => !expected.has(fd));
    expect(unexpected.length).toBeLessThanOrEqual(own.passedOn.includes(3) ? 1 : 0);
  });

  test('a program starts with no signal blocked or ignored', async () => {
    const { stdout } = await runner.run('cat', ['/proc/self/status']);
    const mask = (name: string): bigint => BigInt(`0x${new RegExp(`^${name}:\t(\\w+)$`, 'm').exec(stdout)?.[1]}`);
    // The C library reserves two signals, from 32 on.
    const named = 0x7fff_ffffn;
    expect(mask('SigBlk')).toBe(0n);
    expect(mask('SigIgn') & named).toBe(0n);
  });
});

describe('where a program is looked for', () => {
  let folder: string;
  const before = process.env['PATH'];
  const path = (...folders: string[]): string => folders.join(':');
  const script = (file: string, text: string, mode = 0o755): void => {
    mkdirSync(join(folder, file, '..'), { recursive: true });
    writeFileSync(join(folder, file), `#!/bin/sh\necho ${text}\n`);
    chmodSync(join(folder, file), mode);
  };

  beforeEach(() => {
    folder = mkdtempSync(join(tmpdir(), 'command-runner-'));
  });
  afterEach(() => {
    process.env['PATH'] = before;
    rmSync(folder, { recursive: true });
  });

  test('programs are searched in PATH, then in the sbin folders', async () => {
    script('one/sync-me', 'first');
    script('two/sync-me', 'second');
    process.env['PATH'] = path(join(folder, 'one'), join(folder, 'two'));
    expect(await runner.run('sync-me', [])).toMatchObject({ stdout: 'first\n' });
    expect(await runner.run('true', [])).toEqual(QUIET);
  });

  test('the search for a program skips folders and files that are not executable', async () => {
    mkdirSync(join(folder, 'one/sync-me'), { recursive: true });
    script('two/sync-me', 'no', 0o644);
    script('three/sync-me', 'third');
    process.env['PATH'] = path(join(folder, 'one'), join(folder, 'two'), join(folder, 'three'));
    expect(await runner.run('sync-me', [])).toMatchObject({ stdout: 'third\n' });
    process.env['PATH'] = path(join(folder, 'one'), join(folder, 'two'));
    await expect(runner.run('sync-me', [])).rejects.toMatchObject({ code: 'EACCES' });
  });

  test('the search for a program ignores an empty entry of PATH, which means the current folder', async () => {
    const name = `sync-${randomUUID()}`;
    writeFileSync(name, '#!/bin/sh\n', { mode: 0o755 });
    try {
      for (const empty of ['', ':/nowhere', '/nowhere:', '/nowhere::/nowhere']) {
        process.env['PATH'] = empty;
        await expect(runner.run(name, [])).rejects.toMatchObject({ code: 'MISSING_COMMAND' });
      }
    } finally {
      rmSync(name);
    }
  });
});

describe('streams', () => {
  test('ten megabytes of output on both streams are read', async () => {
    const size = 10_000_000;
    const { stdout, stderr } = await runner.run('sh', [
      '-c',
      `head -c ${size} /dev/zero | tr '\\0' o & head -c ${size} /dev/zero | tr '\\0' e >&2; wait`,
    ]);
    expect(stdout === 'o'.repeat(size)).toBe(true);
    expect(stderr === 'e'.repeat(size)).toBe(true);
  });

  test('ten megabytes of input and output are passed', async () => {
    const stdin = 'äöü -A INPUT -j ACCEPT\n'.repeat(400_000);
    const { stdout } = await runner.run('cat', [], { stdin });
    expect(stdout === stdin).toBe(true);
  });

  test('a program need not read its input, or not all of it', async () => {
    const stdin = 'x'.repeat(10_000_000);
    expect(await runner.run('true', [], { stdin })).toEqual(QUIET);
    expect(await runner.run('head', ['-c', '3'], { stdin })).toEqual({ ...QUIET, stdout: 'xxx' });
  });

  test('a program may read its input after it closed its output', async () => {
    const folder = mkdtempSync(join(tmpdir(), 'command-runner-'));
    try {
      const file = join(folder, 'copy');
      const stdin = 'x'.repeat(1_000_000);
      const result = await runner.run('sh', ['-c', 'exec >&- 2>&-; sleep 0.1; cat 1>"$1"; exit 4', 'sh', file], {
        stdin,
      });
      expect(result).toEqual({ status: 4, stdout: '', stderr: '' });
      expect(readFileSync(file).length).toBe(stdin.length);
    } finally {
      rmSync(folder, { recursive: true });
    }
  });

  test('output above the limit is an error, on each stream', async () => {
    const print = (bytes: number, to: string): Promise<unknown> =>
      runner.run('sh', ['-c', `printf %0${bytes}d 0${to}; sleep 0.1`], { maxOutput: 1000 });
    await expect(print(1000, '')).resolves.toMatchObject({ status: 0 });
    await expect(print(1001, '')).rejects.toMatchObject({ code: 'EFBIG' });
    await expect(print(1001, ' >&2')).rejects.toMatchObject({ code: 'EFBIG' });
  });

  test('no descriptor leaks, however the program ends', async () => {
    const open = (): number => readdirSync('/proc/self/fd').length;
    await runner.run('true', []);
    const atFirst = open();
    for (let round = 0; round < 10; round++) {
      const tenRuns = Array.from({ length: 10 }, async (_, i) => {
        if (i === 0) await runner.run('no-such-program-here', []).catch(() => undefined);
        else if (i === 1) await runner.run('sleep', ['30'], { deadlineMs: 1 }).catch(() => undefined);
        else await runner.run('true', [], { stdin: 'x'.repeat(i * 50_000) });
      });
      await Promise.all(tenRuns);
    }
    expect(open()).toBe(atFirst);
  });
});

describe('the deadline', () => {
  test('the deadline kills and reaps a program that takes too long', async () => {
    const folder = mkdtempSync(join(tmpdir(), 'command-runner-'));
    try {
      const file = join(folder, 'pid');
      const options = { deadlineMs: 1_000 };
      await expect(
        runner.run('sh', ['-c', 'echo $$ > "$1"; exec sleep 30', 'sh', file], options),
      ).rejects.toMatchObject({ code: 'TIMEOUT', message: expect.stringContaining('within 1000 ms') });
      const pid = Number(readFileSync(file, 'utf8'));
      expect(pid).toBeGreaterThan(1);
      expect(isAlive(pid)).toBe(false);
    } finally {
      rmSync(folder, { recursive: true });
    }
  });

  test('the deadline also kills what the program started', async () => {
    const folder = mkdtempSync(join(tmpdir(), 'command-runner-'));
    try {
      const file = join(folder, 'pid');
      const wrapper = ['-c', 'sleep 30 & echo $! > "$1"; wait', 'sh', file];
      await expect(runner.run('sh', wrapper, { deadlineMs: 1_000 })).rejects.toMatchObject({ code: 'TIMEOUT' });
      const pid = Number(readFileSync(file, 'utf8'));
      await waitUntil(() => !isRunning(pid), 'for the end of the program');
    } finally {
      rmSync(folder, { recursive: true });
    }
  });

  test('the deadline applies to a program that closed its output, and to one that does not read', async () => {
    const options = { deadlineMs: 200, stdin: 'x'.repeat(1_000_000) };
    for (const closing of ['exec >&- 2>&-; sleep 30', 'exec <&- >&- 2>&-; sleep 30', 'sleep 30']) {
      await expect(runner.run('sh', ['-c', `${closing}`], options)).rejects.toMatchObject({ code: 'TIMEOUT' });
    }
  });

  test('the deadline applies if the program has exited but a child has its output open', async () => {
    const folder = mkdtempSync(join(tmpdir(), 'command-runner-'));
    const file = join(folder, 'pid');
    try {
      const daemon = ['-c', 'sleep 30 & echo $! > "$1"', 'sh', file];
      await expect(runner.run('sh', daemon, { deadlineMs: 1_000 })).rejects.toMatchObject({ code: 'TIMEOUT' });
      // The program was reaped: the id of its group may belong to others.
      expect(isAlive(Number(readFileSync(file, 'utf8')))).toBe(true);
    } finally {
      const pid = Number(readFileSync(file, 'utf8'));
      process.kill(pid, 'SIGKILL');
      await waitUntil(() => !isRunning(pid), 'for the end of the program');
      rmSync(folder, { recursive: true });
    }
  });
});

/** A zombie is not alive: in a container without an init process, it may never be reaped. */
function isRunning(pid: number): boolean {
  try {
    return !/^State:\tZ/m.test(readFileSync(`/proc/${pid}/status`, 'utf8'));
  } catch {
    return false;
  }
}
