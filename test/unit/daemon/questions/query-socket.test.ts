import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { chmodSync, existsSync, mkdtempSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { type Socket, connect, createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterEach, beforeEach, describe, expect, test } from '@jest/globals';
import { ask } from '../../../../src/command/ask.ts';
import { type Answerer, questionHandler } from '../../../../src/daemon/questions/question-handler.ts';
import { QuestionError } from '../../../../src/daemon/questions/question-error.ts';
import { QuerySocket } from '../../../../src/daemon/questions/query-socket.ts';
import { TestLog } from '../../../support/reconciling.ts';

let folder: string;
let file: string;
let log: TestLog;
const closers: (() => unknown)[] = [];

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'query-'));
  file = join(folder, 'query.sock');
  log = new TestLog();
});

afterEach(async () => {
  for (const close of closers.splice(0).reverse()) await close();
  rmSync(folder, { recursive: true });
});

const HELLO = { '/v1/hello': () => Promise.resolve({ said: 'hello' }) } satisfies Record<string, Answerer>;

async function listen(answerers: Readonly<Record<string, Answerer>> = HELLO, path = file): Promise<QuerySocket> {
  const socket = new QuerySocket({ path, handler: questionHandler(answerers), log, retryMs: 20 });
  closers.push(() => socket.close());
  await socket.start();
  return socket;
}

async function open(): Promise<Socket> {
  const socket = connect(file);
  socket.on('error', () => undefined);
  closers.push(() => socket.destroy());
  await once(socket, 'connect');
  return socket;
}

/** Sends bytes and returns what comes until the end. */
async function exchange(bytes: string | Uint8Array): Promise<string> {
  const socket = await open();
  let text = '';
  socket.setEncoding('latin1').on('data', (chunk: string) => (text += chunk));
  socket.end(bytes);
  await once(socket, 'close');
  return text;
}

describe('the path', () => {
  test('only this user may connect, from the first moment', async () => {
    const before = process.umask(0);
    try {
      await listen();
      expect(statSync(file).mode & 0o777).toBe(0o600);
    } finally {
      process.umask(before);
    }
    expect(log.lines).toEqual([]);
  });

  test('a missing directory is made, for this user only; the file goes with the daemon', async () => {
    const path = join(folder, 'a', 'b', 'query.sock');
    const socket = await listen(HELLO, path);
    expect(statSync(join(folder, 'a', 'b')).mode & 0o777).toBe(0o700);
    expect(await ask(path, '/v1/hello')).toEqual({ said: 'hello' });
    await socket.close();
    expect(existsSync(path)).toBe(false);
  });

  test('a directory to which others may write is refused in one warning, and used when it is right', async () => {
    chmodSync(folder, 0o777);
    await listen();
    await sleep(60);
    expect(log.lines).toEqual([
      `warn: cannot open the query socket ${file}: users other than the daemon's may write to ${folder}; change its owner and mode (0700); only the subcommands need it; retrying`,
    ]);
    chmodSync(folder, 0o700);
    await expect(answered()).resolves.toEqual({ said: 'hello' });
    expect(log.lines.slice(1)).toEqual([`info: the query socket ${file} is open: subcommands can ask this daemon now`]);
  });

  test('the socket of a killed daemon is replaced', async () => {
    const script = `require('node:net').createServer().listen(${JSON.stringify(file)}, () => console.log('up'))`;
    const killed = spawn(process.execPath, ['-e', script], { stdio: ['ignore', 'pipe', 'inherit'] });
    await once(killed.stdout, 'data');
    killed.kill('SIGKILL');
    await once(killed, 'exit');
    expect(existsSync(file)).toBe(true);
    await listen();
    expect(await ask(file, '/v1/hello')).toEqual({ said: 'hello' });
    expect(log.lines).toEqual([]);
  });

  test('that of a running process is left alone until it ends', async () => {
    const other = createServer((socket) => socket.end());
    await once(other.listen(file), 'listening');
    await listen();
    expect(log.lines).toEqual([
      `warn: cannot open the query socket ${file}: another process listens there; only the subcommands need it; retrying`,
    ]);
    other.close();
    await expect(answered()).resolves.toEqual({ said: 'hello' });
  });

  test('a file that is no socket is left alone', async () => {
    writeFileSync(file, 'mine');
    await listen();
    expect(log.lines[0]).toContain('a file that is not a socket has this path');
    expect(statSync(file).size).toBe(4);
  });

  async function answered(): Promise<object> {
    for (;;) {
      try {
        return await ask(file, '/v1/hello');
      } catch {
        await sleep(10);
      }
    }
  }
});

describe('questions', () => {
  test('only GET of what there is', async () => {
    await listen();
    await expect(ask(file, '/v1/nope')).rejects.toThrow('want one of /v1/hello');
    await expect(ask(file, '/')).rejects.toThrow('want one of /v1/hello');
    const posted = await exchange('POST /v1/hello HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000\r\n\r\nx');
    expect(posted).toMatch(/^HTTP\/1.1 405 [^]*only GET is answered/);
    expect(await ask(file, '/v1/hello')).toEqual({ said: 'hello' });
  });

  test('each comes with the time of its arrival, not of its turn', async () => {
    const arrivals: number[] = [];
    await listen({
      '/v1/slow': async (_query, _signal, askedAt) => {
        const began = performance.now();
        arrivals.push(began - askedAt);
        await sleep(50);
        return {};
      },
    });
    await Promise.all([ask(file, '/v1/slow'), ask(file, '/v1/slow')]);
    // The second one waited for the work on the first.
    expect(arrivals[1]).toBeGreaterThan(40);
  });

  test('a sentence for each failure', async () => {
    await listen({
      '/v1/known': () => Promise.reject(new QuestionError(404, 'there is no such Service')),
      '/v1/kernel': () => Promise.reject(new Error('the kernel said no')),
    });
    await expect(ask(file, '/v1/known')).rejects.toThrow('there is no such Service');
    await expect(ask(file, '/v1/kernel')).rejects.toThrow('the kernel said no');
  });

  test('one at a time, with a rest as long as the work', async () => {
    let running = 0;
    let most = 0;
    const began: number[] = [];
    await listen({
      '/v1/slow': async () => {
        began.push(performance.now());
        most = Math.max(most, ++running);
        await sleep(50);
        running -= 1;
        return {};
      },
    });
    await Promise.all(Array.from({ length: 4 }, () => ask(file, '/v1/slow')));
    expect(most).toBe(1);
    const pauses = began.slice(1).map((time, at) => time - (began[at] ?? 0));
    for (const pause of pauses) expect(pause).toBeGreaterThanOrEqual(95);
  });

  test('work stops when nobody waits for it any more', async () => {
    const stopped = Promise.withResolvers<void>();
    await listen({
      '/v1/slow': async (_query, signal) => {
        signal.addEventListener('abort', () => stopped.resolve());
        await stopped.promise;
        throw new Error('stopped');
      },
    });
    const socket = await open();
    socket.write('GET /v1/slow HTTP/1.1\r\nHost: x\r\n\r\n');
    await sleep(20);
    socket.destroy();
    await expect(stopped.promise).resolves.toBeUndefined();
  });
});

describe('hostile readers', () => {
  const LARGE = { ...HELLO, '/v1/large': () => Promise.resolve({ text: 'x'.repeat(500_000) }) };

  test.each([
    ['say nothing', ''],
    ['never end their headers', 'GET /v1/hello HTTP/1.1\r\nX-Slow: '],
    ['never read their reply', 'GET /v1/large HTTP/1.1\r\nHost: x\r\n\r\n'],
    ['pipeline', 'GET /v1/large HTTP/1.1\r\nHost: x\r\n\r\n'.repeat(20)],
  ])('400 connections that %s: a question is answered', async (_name, sends) => {
    await listen(LARGE);
    for (let opened = 0; opened < 400; opened++) {
      const socket = connect(file);
      socket.on('error', () => undefined);
      socket.pause();
      closers.push(() => socket.destroy());
      if (sends !== '') socket.write(sends);
    }
    await sleep(100);
    expect(await ask(file, '/v1/hello')).toEqual({ said: 'hello' });
  });

  test('large replies that nobody reads are ended, the oldest first, when they take too much memory', async () => {
    await listen({ ...HELLO, '/v1/larger': () => Promise.resolve({ text: 'x'.repeat(12 << 20) }) });
    const clients: Socket[] = [];
    for (let opened = 0; opened < 6; opened++) {
      const socket = await open();
      clients.push(socket.pause());
      socket.write('GET /v1/larger HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n');
    }
    // Each question waits for those before it, and for a rest after them.
    await ask(file, '/v1/hello');
    const read = await Promise.all(
      clients.map(async (socket) => {
        let bytes = 0;
        for await (const chunk of socket) bytes += (chunk as Buffer).length;
        return bytes > 12 << 20;
      }),
    );
    expect(read).toEqual([false, false, false, false, true, true]);
    expect(await ask(file, '/v1/hello')).toEqual({ said: 'hello' });
  });

  test('too large headers and any bytes', async () => {
    await listen();
    expect(await exchange(`GET /v1/hello HTTP/1.1\r\nX: ${'x'.repeat(9_000)}\r\n\r\n`)).toMatch(/^HTTP\/1.1 431 /);
    // A linear congruential generator: each run sends the same bytes.
    let state = 1;
    for (let round = 0; round < 200; round++) {
      const bytes = Uint8Array.from(
        { length: 1 + (round % 300) },
        () => (state = (state * 1_103_515_245 + 12_345) % 2 ** 31) >>> 16,
      );
      await exchange(bytes);
    }
    expect(await ask(file, '/v1/hello')).toEqual({ said: 'hello' });
  });
});
