import { expect, test } from '@jest/globals';
import { failureOfResponse, failureOfStatus } from '../../../src/kube/failure.ts';

test.each([
  [400, 'refused'],
  [401, 'unauthorized'],
  [403, 'forbidden'],
  [404, 'unavailable'],
  [410, 'expired'],
  [422, 'refused'],
  [429, 'throttled'],
  [500, 'unavailable'],
  [504, 'unavailable'],
])('HTTP %i is %s', (code, kind) => {
  expect(failureOfResponse(code, {}, '<html>')).toEqual({ kind, message: `status ${code}` });
});

test('the message and the wait of a Status; a Retry-After header goes before', () => {
  const status = { kind: 'Status', message: 'slow down', code: 429, details: { retryAfterSeconds: 3 } };
  expect(failureOfStatus(status)).toEqual({ kind: 'throttled', message: 'slow down', retryAfterMs: 3000 });
  expect(failureOfResponse(429, { 'retry-after': '2' }, JSON.stringify(status))).toMatchObject({ retryAfterMs: 2000 });
  expect(failureOfResponse(503, { 'retry-after': 'Wed, 21 Oct 2026 07:28:00 GMT' }, '')).not.toHaveProperty(
    'retryAfterMs',
  );
});

test('a wait of hours is cut', () => {
  expect(failureOfResponse(429, { 'retry-after': '86400' }, '')).toMatchObject({ retryAfterMs: 120_000 });
});

test.each([[null], ['x'], [[]], [{ code: '410' }]])('what is no Status is unavailable: %j', (status) => {
  expect(failureOfStatus(status)).toMatchObject({ kind: 'unavailable' });
});

test('an expiry is told by its reason too', () => {
  expect(failureOfStatus({ reason: 'Expired', code: 0 })).toMatchObject({ kind: 'expired' });
});
