import { execFileSync } from 'node:child_process';
import { PassThrough } from 'node:stream';
import { describe, expect, test } from '@jest/globals';
import type { LoggingConfig } from '../../../src/config/proxy-config.ts';
import type { Log, LogFields } from '../../../src/observe/log/log.ts';
import { type LogControl, createLog } from '../../../src/observe/log/winston-log.ts';

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

const HEAD = `1121 12:00:00.123456 ${String(process.pid).padStart(7)} winston-log.test.ts:`;

/** What was written, with the number of the caller's line as N. */
function withoutLineNumbers(text: string): string {
  return text.replaceAll(/(?<=winston-log\.test\.ts:)\d+/g, 'N').replaceAll(`${HEAD}N] `, ' ');
}

test("a line has klog's head: severity, local time, process, and the file and line that called", () => {
  const recorded = record();
  recorded.log.child('kube').warn('Slow', { a: 1 });
  expect(recorded.err()).toMatch(new RegExp(`^W${HEAD}\\d+\\] "Slow" logger="kube" a=1\n$`));
});

describe('text', () => {
  const LINES: readonly (readonly [write: (log: Log) => void, line: string])[] = [
    [(log) => log.info('Ready'), 'I "Ready"\n'],
    [(log) => log.error('Broken'), 'E "Broken"\n'],
    [(log) => log.debug(0, 'Detail'), 'I "Detail"\n'],
    [(log) => log.debug(1, 'Too much'), ''],
    [(log) => log.child('kube').child('reflector').info('Watching'), 'I "Watching" logger="kube/reflector"\n'],
    [
      (log) => log.info('x', { b: 1, a: 'two', c: true, big: 2n ** 70n, none: undefined }),
      'I "x" b=1 a="two" c=true big=1180591620717411303424\n',
    ],
    [(log) => log.info('x', { list: ['a', 'b"c'] }), String.raw`I "x" list=["a","b\"c"]` + '\n'],
    // Foreign text cannot start a new line, move the cursor or reverse text.
    [
      (log) => log.info('a\nE1121 "fake"', { name: 'x\\\r\ny\u001b[31m\u2028\u202e\u0000' }),
      String.raw`I "a\nE1121 \"fake\"" name="x\\\r\ny\u001b[31m\u2028\u202e\u0000"` + '\n',
    ],
    [(log) => log.info('%s %d %j'), 'I "%s %d %j"\n'],
    [(log) => log.info('y'.repeat(5000)), `I "${'y'.repeat(2000)}..."\n`],
  ];

  test.each(LINES)('%s', (write, line) => {
    const recorded = record();
    write(recorded.log);
    expect(withoutLineNumbers(recorded.err())).toBe(line);
    expect(recorded.out()).toBe('');
  });
});

describe('json', () => {
  const caller = 'observe/winston-log.test.ts:N';
  const LINES: readonly (readonly [write: (log: Log) => void, line: object])[] = [
    [(log) => log.info('Ready'), { ts: NOW, level: 'info', caller, msg: 'Ready', v: 0 }],
    [(log) => log.error('Broken', { n: 1 }), { ts: NOW, level: 'error', caller, msg: 'Broken', n: 1 }],
    [(log) => log.child('kube').debug(2, 'x'), { ts: NOW, level: 'debug', logger: 'kube', caller, msg: 'x', v: 2 }],
    [
      (log) => log.info('x', { big: 2n ** 70n, list: ['a'], nan: NaN }),
      { ts: NOW, level: 'info', caller, msg: 'x', v: 0, big: '1180591620717411303424', list: ['a'], nan: 'NaN' },
    ],
    [(log) => log.info('a\nb'), { ts: NOW, level: 'info', caller, msg: 'a\nb', v: 0 }],
  ];

  test.each(LINES)('%s', (write, line) => {
    const recorded = record({ format: 'json', verbosity: 2 });
    write(recorded.log);
    expect(withoutLineNumbers(recorded.err())).toBe(`${JSON.stringify(line)}\n`);
  });

  test('log lines contain no control characters', () => {
    const recorded = record({ format: 'json' });
    recorded.log.info('a\u009b\u2028b');
    expect(recorded.err()).toContain(String.raw`"msg":"a\u009b\u2028b"`);
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
    expect(withoutLineNumbers(recorded.err())).toBe(`I "x" ${shown}\n`);
  });

  test('secrets in messages are hidden too', () => {
    const recorded = record();
    recorded.log.error('401 for Bearer abcdefghijkl');
    expect(withoutLineNumbers(recorded.err())).toBe('E "401 for Bearer [hidden]"\n');
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

  test('the verbosity can be changed at run time', () => {
    const recorded = record();
    recorded.log.debug(3, 'no');
    recorded.setVerbosity(3);
    recorded.log.debug(3, 'yes');
    expect(withoutLineNumbers(recorded.err())).toBe('I "yes"\n');
  });
});

test('with split streams, information goes to standard output, errors and warnings to standard error', () => {
  const recorded = record({ splitStream: true });
  recorded.log.info('i');
  recorded.log.warn('w');
  recorded.log.error('e');
  recorded.log.debug(0, 'd');
  expect(withoutLineNumbers(recorded.out())).toBe('I "i"\nI "d"\n');
  expect(withoutLineNumbers(recorded.err())).toBe('W "w"\nE "e"\n');
});

// As main.ts ends: no process.exit(), which loses what a slow reader has not taken yet.
test('no log line is lost when the process exits while the reader is slow', () => {
  const url = new URL('../../../src/observe/log/winston-log.ts', import.meta.url).href;
  const script = `const { createLog } = await import(${JSON.stringify(url)});
    const { log } = createLog({ format: 'text', verbosity: 0, vmodule: [], splitStream: true });
    for (let i = 0; i < 5000; i++) log.debug(0, 'line', { i });
    process.exitCode = 0;`;
  const output = execFileSync(process.execPath, ['--input-type=module', '-e', script], { encoding: 'utf8' });
  expect(output.trimEnd().split('\n')).toHaveLength(5000);
});
