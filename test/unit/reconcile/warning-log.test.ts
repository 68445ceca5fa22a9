import { expect, test } from '@jest/globals';
import { namespacedName } from '../../../src/base/service/names.ts';
import { WarningLog } from '../../../src/reconcile/desired/warning-log.ts';
import { FakeClock, TestLog } from '../../support/reconciling.ts';

function bed() {
  const [log, clock] = [new TestLog(), new FakeClock()];
  const warnings = new WarningLog(log, clock);
  const warn = (namespace: string, message: string): void =>
    warnings.warn(namespacedName(namespace, 'web'), { reason: 'invalid-annotation', message });
  return { log, clock, warn };
}

test('thousands of warnings of one namespace are 21 lines, and those of other namespaces are logged', () => {
  const { log, warn } = bed();
  for (let i = 0; i < 5_000; i++) warn('tenant', `bad ${i}`);
  warn('other', 'bad');
  expect(log.lines).toHaveLength(22);
  expect(log.lines.slice(19)).toEqual([
    'warn: bad 19',
    'warn: too many warnings about Services of namespace tenant: run explain for one of them',
    'warn: bad',
  ]);
  expect(log.entries[0]?.fields).toEqual({ service: 'tenant/web', reason: 'invalid-annotation' });
});

test('a Service whose annotation changes all the time has one warning in ten seconds, and the others are counted', () => {
  const { log, clock, warn } = bed();
  for (let i = 0; i < 6_000; i++) {
    warn('tenant', `bad ${i}`);
    clock.advance(10);
  }
  // A minute: 20 lines, then 5, each with the number of those left out before it.
  const logged = log.lines.flatMap((line) => /^warn: bad (\d+)$/.exec(line)?.[1] ?? []);
  const omitted = log.lines.flatMap((line) => /^warn: (\d+) lines about .* tenant not logged$/.exec(line)?.[1] ?? []);
  expect([logged.length, omitted.length, log.lines.length]).toEqual([25, 5, 31]);
  const sum = omitted.reduce((total, count) => total + Number(count), 0);
  expect(logged.length + sum).toBe(Number(logged.at(-1)) + 1);
});

test('after a quiet time, a namespace has all its lines again', () => {
  const { log, clock, warn } = bed();
  for (let i = 0; i < 30; i++) warn('tenant', `bad ${i}`);
  clock.advance(200_000);
  const before = log.lines.length;
  for (let i = 0; i < 19; i++) warn('tenant', `again ${i}`);
  expect(log.lines.slice(before)).toHaveLength(20);
  expect(log.lines[before]).toBe('warn: 10 lines about Services of namespace tenant not logged');
});
