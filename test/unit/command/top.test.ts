import { mkdtempSync, rmSync } from 'node:fs';
import { createServer } from 'node:http';
import { EventEmitter, once } from 'node:events';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { stripVTControlCharacters } from 'node:util';
import { afterAll, afterEach, describe, expect, test } from '@jest/globals';
import { runCommand } from '../../../src/command/program/run-command.ts';
import type { Streams } from '../../../src/command/screen.ts';
import { short } from '../../../src/command/short-number.ts';
import { topLines } from '../../../src/command/top/top-lines.ts';
import { topReply } from '../../../src/command/top/top-reply.ts';
import type { TopReply, TrafficReply, TrafficRow } from '../../../src/explain/replies.ts';

const folder = mkdtempSync(join(tmpdir(), 'top-'));
afterAll(() => rmSync(folder, { recursive: true }));

const closers: (() => unknown)[] = [];
afterEach(async () => {
  for (const close of closers.splice(0)) await close();
});

function row(of: string, counters: Partial<TrafficRow> = {}): TrafficRow {
  return {
    of,
    activeConnections: 0,
    inactiveConnections: 0,
    connections: 0,
    incomingPackets: 0,
    outgoingPackets: 0,
    incomingBytes: 0,
    outgoingBytes: 0,
    ...counters,
  };
}

function read(readAtSeconds: number, rows: readonly TrafficRow[], more = 0): TrafficReply {
  const head = { apiVersion: 'kube-ipvs-proxy/v1', kind: 'Traffic', node: 'node-a', ok: true, verdict: '' } as const;
  return { ...head, by: rows[0]?.endpoint === undefined ? 'service' : 'endpoint', readAtSeconds, rows, more };
}

const BEFORE = read(100, [
  row('shop/web', { connections: 100, incomingPackets: 1_000, outgoingBytes: 5_000, activeConnections: 9 }),
  row('shop/db', { connections: 7, incomingBytes: 70 }),
]);
const NOW = read(104, [
  row('shop/db', { connections: 7, incomingBytes: 8_070, activeConnections: 12, inactiveConnections: 1 }),
  row('shop/web', { connections: 150, incomingPackets: 1_200, outgoingBytes: 45_000, activeConnections: 3 }),
]);

describe('the rate between two reads', () => {
  test('is the increase of each counter over the time of the daemon; connections are those of now', () => {
    const reply = topReply(BEFORE, NOW, 'connections');
    expect(reply).toMatchObject({
      kind: 'Top',
      verdict: '12.5 new connections a second on node node-a, in 4.0 s, to 2 Services',
      seconds: 4,
    });
    expect(reply.rows[0]).toEqual({
      of: 'shop/web',
      activeConnections: 3,
      inactiveConnections: 0,
      perSecond: {
        connections: 12.5,
        incomingPackets: 50,
        outgoingPackets: 0,
        incomingBytes: 0,
        outgoingBytes: 10_000,
      },
    });
  });

  test.each([
    ['connections', ['shop/web', 'shop/db']],
    ['active', ['shop/db', 'shop/web']],
    ['inactive', ['shop/db', 'shop/web']],
    ['packets', ['shop/web', 'shop/db']],
    ['bytes', ['shop/web', 'shop/db']],
    ['name', ['shop/db', 'shop/web']],
  ] as const)('sorted by %s', (sort, names) => {
    expect(topReply(BEFORE, NOW, sort).rows.map(({ of }) => of)).toEqual(names);
  });

  test('of a row that is new is its count; of one that was not listed before, and of a reset counter, none', () => {
    const rates = (before: TrafficReply): unknown =>
      topReply(before, NOW, 'name').rows.map(({ perSecond }) => perSecond?.connections);
    expect(rates(read(100, []))).toEqual([1.75, 37.5]);
    expect(rates(read(100, [], 1))).toEqual([undefined, undefined]);
    expect(rates(read(100, [row('shop/web', { connections: 151 })]))).toEqual([1.75, undefined]);
  });
});

test.each([
  [0, '0'],
  [3, '3'],
  [0.25, '0.3'],
  [9.96, '10'],
  [999.4, '999'],
  [999.6, '1.0k'],
  [12_345, '12k'],
  [999_999, '1.0M'],
  [5_600_000_000, '5.6G'],
  [9.99e17, '999P'],
])('%d is %s', (value, text) => {
  expect(short(value)).toBe(text);
});

describe('the table', () => {
  test('by service', () => {
    expect(topLines(topReply(BEFORE, { ...NOW, more: 3 }, 'name'))).toEqual([
      '12.5 new connections a second on node node-a, in 4.0 s, to 5 Services',
      '',
      'service                                     active  inactive  conn/s  pkt/s in    out  B/s in    out',
      'shop/db                                         12         1       0         0      0    2.0k      0',
      'shop/web                                         3         0      13        50      0       0    10k',
      '',
      'and 3 more with fewer connections',
    ]);
  });

  test.each([
    ['service', undefined],
    ['endpoint', '[fd00:10:244:1234:5678:9abc:def0:1234]:65535/SCTP'],
    ['endpoint', '10.244.0.5:80/TCP'],
  ])('the widest rows by %s fit 100 columns', (_by, endpoint) => {
    const most = 9.99e17;
    const wide = row(`${'n'.repeat(63)}/${'s'.repeat(63)}`, {
      ...(endpoint === undefined ? {} : { endpoint }),
      activeConnections: most,
      inactiveConnections: most,
      connections: most,
      incomingPackets: most,
      outgoingPackets: most,
      incomingBytes: most,
      outgoingBytes: most,
    });
    const lines = topLines(topReply(read(0, []), read(1, [wide]), 'name'));
    expect(lines.filter((line) => line.length > 100)).toEqual([]);
    expect(lines[3]).toMatch(
      endpoint === undefined
        ? /^n+…  /
        : endpoint.startsWith('[')
          ? / …[\da-f:]+\]:65535\/SCTP /
          : / 10\.244\.0\.5:80\/TCP /,
    );
  });
});

/** A daemon that gives these replies in turn, then the last one. */
async function daemon(
  ...replies: readonly TrafficReply[]
): Promise<{ readonly socket: string; readonly asked: string[] }> {
  const socket = join(folder, `${Math.random()}.sock`);
  const asked: string[] = [];
  const server = createServer((request, response) => {
    response.end(JSON.stringify(replies[Math.min(asked.length, replies.length - 1)]));
    asked.push(request.url ?? '');
  });
  await once(server.listen(socket), 'listening');
  closers.push(() => server.close());
  return { socket, asked };
}

async function run(argv: readonly string[], streams?: Streams) {
  const out: string[] = [];
  const err: string[] = [];
  const terminal = { out: (line: string) => out.push(line), err: (line: string) => err.push(line) };
  const code = await runCommand(['top', ...argv], terminal, streams);
  return { code, out: out.join('\n'), err: err.join('\n') };
}

test.each([
  [
    ['--by', 'pod'],
    "option '--by <service|endpoint>' argument 'pod' is invalid. Want service, endpoint; see kube-ipvs-proxy help",
  ],
  [
    ['--sort', 'x'],
    "option '--sort <column>' argument 'x' is invalid. Want connections, active, inactive, packets, bytes, name; see kube-ipvs-proxy help",
  ],
  [['--interval', '1'], '--interval: want a whole number from 2 to 3600, got "1"'],
  [['--interval', '3s'], '--interval: want a whole number from 2 to 3600, got "3s"'],
  [['--count', '0'], '--count: want a whole number from 1 to 1000000, got "0"'],
  [['web'], "too many arguments for 'top'. Expected 0 arguments but got 1: web; see kube-ipvs-proxy help"],
  [
    ['-n', 'shop'],
    '--namespace needs the daemon, which is not running on this node: the kernel does not know namespaces',
  ],
])('%j is refused', async (argv, message) => {
  expect(await run(argv)).toEqual({ code: 2, out: '', err: `kube-ipvs-proxy: ${message}` });
});

test('not on a terminal: two reads an interval apart', async () => {
  const { socket, asked } = await daemon(BEFORE, NOW);
  const { code, out } = await run(['--interval=2', '-o', 'json', '--query-socket', socket]);
  expect(code).toBe(0);
  expect(JSON.parse(out) as TopReply).toEqual(topReply(BEFORE, NOW, 'connections'));
  expect(asked).toEqual(['/v1/traffic?by=service', '/v1/traffic?by=service']);
});

test('of one namespace', async () => {
  const { socket, asked } = await daemon(BEFORE, NOW);
  await run(['--interval=2', '-n', 'shop', '--query-socket', socket]);
  expect(asked).toEqual(['/v1/traffic?by=service&namespace=shop', '/v1/traffic?by=service&namespace=shop']);
});

test('with a count, so many tables', async () => {
  const { socket } = await daemon(BEFORE, NOW);
  const { out } = await run(['--interval=2', '--count', '2', '-o', 'yaml', '--query-socket', socket]);
  expect(out.split('\n---\n')).toHaveLength(2);
});

/** A terminal of ten lines and 60 columns, whose user presses the keys as soon as there is text. */
class Terminal extends EventEmitter implements Streams {
  readonly modes: boolean[] = [];
  text = '';
  readonly #keys: string;

  constructor(keys: string) {
    super();
    this.#keys = keys;
  }

  readonly stdin = Object.assign(new EventEmitter(), {
    isTTY: true,
    setRawMode: (mode: boolean) => void this.modes.push(mode),
    resume: () => undefined,
    pause: () => undefined,
  }) as unknown as Streams['stdin'];

  readonly stdout: Streams['stdout'] = {
    isTTY: true,
    rows: 10,
    columns: 60,
    write: (text: string | Uint8Array) => {
      this.text += String(text);
      setImmediate(() => (this.stdin as unknown as EventEmitter).emit('data', this.#keys));
      return true;
    },
  };
}

test.each(['q', '\u0003'])('on a terminal, the table is drawn over the last one until %j', async (keys) => {
  const many = read(
    100,
    Array.from({ length: 50 }, (_, at) => row(`shop/${at}`)),
  );
  const { socket, asked } = await daemon(many);
  const terminal = new Terminal(`x${keys}`);
  expect(await run(['--query-socket', socket], terminal)).toEqual({ code: 0, out: '', err: '' });
  expect(terminal.text.startsWith('\u001B[H0.0 new connections ')).toBe(true);
  expect(terminal.text.endsWith('\u001B[J')).toBe(true);
  const lines = stripVTControlCharacters(terminal.text).split('\r\n');
  expect(lines).toHaveLength(10);
  expect(Math.max(...lines.map((line) => line.length))).toBe(60);
  expect(terminal.modes).toEqual([true, false]);
  expect(asked).toHaveLength(1);
});
