import { execFileSync } from 'node:child_process';
import { PassThrough } from 'node:stream';
import { describe, expect, test } from '@jest/globals';
import type { LoggingConfig } from '../../../src/config/proxy-config.ts';
import type { Log, LogFields } from '../../../src/observe/log.ts';
import { type LogControl, createLog } from '../../../src/observe/winston-log.ts';

// 2026-11-21 12:00:00.123 in whatever zone the test runs, and 456 microseconds.
const NOW = new Date(2026, 10, 21, 12, 0, 0, 123).getTime() + 0.456;

interface Recorded extends LogControl {
  out(): string;
  err(): string;
}

function record(config: Partial<LoggingConfig> = {}): Recorded {
  const stdout = new PassThrough();
  const stderr = new PassThrough();
  const read = (stream: PassThrough) => (): string => String(stream.read() ?? '');
  const control = createLog(
    { format: 'text', verbosity: 0, vmodule: [], splitStream: false, ...config },
    { stdout, stderr, now: () => NOW },
  );
  return { ...control, out: read(stdout), err: read(stderr) };
}

describe('text', () => {
  const LINES: readonly (readonly [write: (log: Log) => void, line: string])[] = [
    [(log) => log.info('Ready'), 'I1121 12:00:00.123456 Ready\n'],
    [(log) => log.warn('Slow'), 'W1121 12:00:00.123456 Slow\n'],
    [(log) => log.error('Broken'), 'E1121 12:00:00.123456 Broken\n'],
    [(log) => log.debug(0, 'Detail'), 'I1121 12:00:00.123456 Detail\n'],
    [(log) => log.debug(1, 'Too much'), ''],
    [
      (log) => log.child('kube').child('reflector').info('Watching'),
      'I1121 12:00:00.123456 kube/reflector] Watching\n',
    ],
    [
      (log) => log.info('x', { b: 1, a: 'two', c: true, big: 2n ** 70n, none: undefined }),
      'I1121 12:00:00.123456 x a="two" b=1 big=1180591620717411303424 c=true\n',
    ],
    [(log) => log.info('x', { list: ['a', 'b"c'] }), String.raw`I1121 12:00:00.123456 x list=["a","b\"c"]` + '\n'],
    // Nothing that a stranger wrote makes a line of its own, moves the cursor or turns text around.
    [
      (log) => log.info('a\nE1121 fake', { name: 'x\r\ny\u001b[31m\u2028\u202e\u0000' }),
      String.raw`I1121 12:00:00.123456 a\nE1121 fake name="x\r\ny\u001b[31m\u2028\u202e\u0000"` + '\n',
    ],
    [(log) => log.info('%s %d %j'), 'I1121 12:00:00.123456 %s %d %j\n'],
    [(log) => log.child('a\nb').info('c'), String.raw`I1121 12:00:00.123456 a\nb] c` + '\n'],
    [(log) => log.info('x', { 'a\nb': 1 }), String.raw`I1121 12:00:00.123456 x a\nb=1` + '\n'],
    [(log) => log.info('y'.repeat(5000)), `I1121 12:00:00.123456 ${'y'.repeat(2000)}...\n`],
  ];

  test.each(LINES)('%s', (write, line) => {
    const recorded = record();
    write(recorded.log);
    expect(recorded.err()).toBe(line);
    expect(recorded.out()).toBe('');
  });
});

describe('json', () => {
  const LINES: readonly (readonly [write: (log: Log) => void, line: object])[] = [
    [(log) => log.info('Ready'), { ts: NOW, level: 'info', v: 0, msg: 'Ready' }],
    [(log) => log.error('Broken', { n: 1 }), { ts: NOW, level: 'error', msg: 'Broken', n: 1 }],
    [(log) => log.child('kube').debug(2, 'x'), { ts: NOW, level: 'debug', v: 2, logger: 'kube', msg: 'x' }],
    [
      (log) => log.info('x', { big: 2n ** 70n, list: ['a'], nan: NaN }),
      { ts: NOW, level: 'info', v: 0, msg: 'x', big: '1180591620717411303424', list: ['a'], nan: 'NaN' },
    ],
    [
      (log) => log.info('x', { msg: 'y', level: 'z', ts: 0 }),
      { ts: NOW, level: 'info', v: 0, msg: 'x', _level: 'z', _msg: 'y', _ts: 0 },
    ],
    [(log) => log.info('a\nb'), { ts: NOW, level: 'info', v: 0, msg: String.raw`a\nb` }],
  ];

  test.each(LINES)('%s', (write, line) => {
    const recorded = record({ format: 'json', verbosity: 2 });
    write(recorded.log);
    expect(recorded.err()).toBe(`${JSON.stringify(line)}\n`);
  });
});

describe('secrets', () => {
  const FIELDS: readonly (readonly [fields: LogFields, shown: string])[] = [
    [{ token: 'abc' }, 'token="[hidden]"'],
    [{ bearerToken: 'abc' }, 'bearerToken="[hidden]"'],
    [{ Authorization: 'x' }, 'Authorization="[hidden]"'],
    [{ password: 'x', userPasswd: 'y' }, 'password="[hidden]" userPasswd="[hidden]"'],
    [{ clientKeyData: 'x' }, 'clientKeyData="[hidden]"'],
    [{ key: 'default/web' }, 'key="default/web"'],
    [{ header: 'Bearer abcdefgh.ijkl' }, 'header="Bearer [hidden]"'],
    [{ text: 'jwt eyJhbGciOiJSUzI1NiJ9.eyJpc3MiOiJrdWJlIn0.c2lnbmF0dXJl end' }, 'text="jwt [hidden] end"'],
    [{ url: 'https://user:pass@10.0.0.1:6443/api' }, 'url="https://[hidden]@10.0.0.1:6443/api"'],
    [{ pem: 'a -----BEGIN RSA PRIVATE KEY-----\nMIIE\n-----END RSA PRIVATE KEY----- b' }, 'pem="a [hidden] b"'],
    [{ list: ['Bearer 0123456789abcdef'] }, 'list=["Bearer [hidden]"]'],
  ];

  test.each(FIELDS)('%j', (fields, shown) => {
    const recorded = record();
    recorded.log.info('x', fields);
    expect(recorded.err()).toBe(`I1121 12:00:00.123456 x ${shown}\n`);
  });

  test('also in messages', () => {
    const recorded = record();
    recorded.log.error('401 for Bearer abcdefghijkl');
    expect(recorded.err()).toBe('E1121 12:00:00.123456 401 for Bearer [hidden]\n');
  });
});

describe('verbosity', () => {
  const CASES: readonly (readonly [vmodule: string, component: string, shown: number])[] = [
    ['', 'sync', 1],
    ['sync=3', 'sync', 3],
    ['sync=3', 'kube/sync', 3],
    ['sync=3', 'synced', 1],
    ['sy*=3', 'synced', 3],
    ['syn?=3', 'sync', 3],
    ['syn?=3', 'syn', 1],
    ['kube/*=3', 'kube/sync', 3],
    ['kube/*=3', 'sync', 1],
    ['sync=0', 'sync', 0],
    ['a=4,sync=2,s*=3', 'sync', 2],
    ['s.nc=3', 'sync', 1],
  ];

  test.each(CASES)('-v=1 --vmodule=%s: %s shows %d', (text, component, shown) => {
    const vmodule =
      text === ''
        ? []
        : text
            .split(',')
            .map((entry) => ({ filePattern: entry.split('=')[0]!, verbosity: Number(entry.split('=')[1]) }));
    const recorded = record({ verbosity: 1, vmodule });
    const log = component.split('/').reduce<Log>((parent, name) => parent.child(name), recorded.log);
    for (let level = 0; level <= 5; level++) log.debug(level, String(level));
    expect(recorded.err().split('\n').length - 1).toBe(shown + 1);
  });

  test('can be changed while running', () => {
    const recorded = record();
    recorded.log.debug(3, 'no');
    recorded.setVerbosity(3);
    recorded.log.debug(3, 'yes');
    expect(recorded.err()).toBe('I1121 12:00:00.123456 yes\n');
  });
});

test('split streams: information to standard output, errors and warnings to standard error', () => {
  const recorded = record({ splitStream: true });
  recorded.log.info('i');
  recorded.log.warn('w');
  recorded.log.error('e');
  recorded.log.debug(0, 'd');
  expect(recorded.out()).toBe('I1121 12:00:00.123456 i\nI1121 12:00:00.123456 d\n');
  expect(recorded.err()).toBe('W1121 12:00:00.123456 w\nE1121 12:00:00.123456 e\n');
});

// As main.ts ends: no process.exit(), which loses what a slow reader has not taken yet.
test('nothing is lost when the process ends behind a slow reader', () => {
  const url = new URL('../../../src/observe/winston-log.ts', import.meta.url).href;
  const script = `const { createLog } = await import(${JSON.stringify(url)});
    const { log } = createLog({ format: 'text', verbosity: 0, vmodule: [], splitStream: true });
    for (let i = 0; i < 5000; i++) log.info('line', { i });
    process.exitCode = 0;`;
  const output = execFileSync(process.execPath, ['--input-type=module', '-e', script], { encoding: 'utf8' });
  expect(output.trimEnd().split('\n')).toHaveLength(5000);
});
