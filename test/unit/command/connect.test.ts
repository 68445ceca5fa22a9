import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { runCommand } from '../../../src/command/program/run-command.ts';
import type { ConnectReply } from '../../../src/explain/node/node-replies.ts';

const server = createServer((request, response) => {
  response.writeHead(request.url === '/healthz' ? 200 : 503).end();
});
let port = 0;
beforeAll(async () => {
  await once(server.listen(0, '127.0.0.1'), 'listening');
  ({ port } = server.address() as AddressInfo);
});
afterAll(() => {
  server.close();
});

async function connect(
  ...argv: string[]
): Promise<{ readonly code: number; readonly out: string; readonly err: string }> {
  const out: string[] = [];
  const err: string[] = [];
  const terminal = { out: (line: string) => out.push(line), err: (line: string) => err.push(line) };
  return { code: await runCommand(['connect', ...argv], terminal), out: out.join('\n'), err: err.join('\n') };
}

test('what accepts a connection, and a page with status 200, answer', async () => {
  const { code, out } = await connect(`127.0.0.1:${port}`, `http://127.0.0.1:${port}/healthz`);
  expect({ code, out }).toEqual({
    code: 0,
    out: expect.stringMatching(
      /^all answer\n {2}127\.0\.0\.1:\d+ +answers after \d+ ms\n {2}http:\S+ +answers after \d+ ms$/,
    ),
  });
});

test('what refuses a connection, and a page with another status, do not', async () => {
  const { code, out } = await connect('127.0.0.1:1', `http://127.0.0.1:${port}/`, `127.0.0.1:${port}`, '-o', 'json');
  const { verdict, connections } = JSON.parse(out) as ConnectReply;
  expect({ code, verdict }).toEqual({ code: 1, verdict: '2 of 3 addresses do not answer' });
  expect(connections).toMatchObject([
    { to: '127.0.0.1:1', ok: false, why: expect.stringContaining('ECONNREFUSED') },
    { ok: false, why: 'status 503' },
    { ok: true },
  ]);
});

test('what is silent has not answered in time', async () => {
  const silent = createServer(() => undefined);
  await once(silent.listen(0, '127.0.0.1'), 'listening');
  const { port: of } = silent.address() as AddressInfo;
  const { out } = await connect(`http://127.0.0.1:${of}/`, '--timeout=1');
  silent.closeAllConnections();
  silent.close();
  expect(out).toContain('no answer within 1 s');
});

test('an IPv6 address may lack its brackets', async () => {
  const { code, err } = await connect('::1:1', 'http://::1:1/x', '[::1]:1');
  expect({ code, err }).toEqual({ code: 1, err: '' });
});

test.each([[[]], [['web:80']], [['10.0.0.1']], [['10.0.0.1:99999']], [['http://10.0.0.1:80']], [['10.0.0.1:80/x']]])(
  '%j is no question',
  async (targets: string[]) => {
    expect(await connect(...targets)).toMatchObject({
      code: 2,
      out: '',
      err: expect.stringMatching(/want IP:PORT|needs 1/),
    });
  },
);
