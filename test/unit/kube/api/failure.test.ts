import { expect, test } from '@jest/globals';
import { failureOfResponse, failureOfStatus } from '../../../../src/kube/api/failure.ts';

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
  expect(failureOfResponse(code, {}, Buffer.from('<html>'))).toEqual({ kind, message: `status ${code}` });
});

test('a failure has the message and retryAfterSeconds of its Status; a Retry-After header has priority', () => {
  const status = { kind: 'Status', message: 'slow down', code: 429, details: { retryAfterSeconds: 3 } };
  expect(failureOfStatus(status)).toEqual({ kind: 'throttled', message: 'slow down', retryAfterMs: 3000 });
  expect(failureOfResponse(429, { 'retry-after': '2' }, Buffer.from(JSON.stringify(status)))).toMatchObject({
    retryAfterMs: 2000,
  });
  expect(
    failureOfResponse(503, { 'retry-after': 'Wed, 21 Oct 2026 07:28:00 GMT' }, Buffer.from('')),
  ).not.toHaveProperty('retryAfterMs');
});

test('a Retry-After of hours is capped', () => {
  expect(failureOfResponse(429, { 'retry-after': '86400' }, Buffer.from(''))).toMatchObject({ retryAfterMs: 120_000 });
});

test.each([[null], ['x'], [[]], [{ code: '410' }]])('not a Status: unavailable: %j', (status) => {
  expect(failureOfStatus(status)).toMatchObject({ kind: 'unavailable' });
});

test.each([
  [500, 'a watch stream was requested by the client but the required storage feature RequestWatchProgress is disabled'],
  [
    422,
    'ListOptions.meta.k8s.io "" is invalid: sendInitialEvents: Forbidden: sendInitialEvents is forbidden for watch',
  ],
  [
    422,
    'ListOptions.meta.k8s.io "" is invalid: resourceVersionMatch: Forbidden: resourceVersionMatch is forbidden for watch',
  ],
])('a server without WatchList: %i %s', (code, message) => {
  expect(failureOfStatus({ code, message })).toEqual({ kind: 'unstreamable', message });
});

test('an expired version is recognized by its reason', () => {
  expect(failureOfStatus({ reason: 'Expired', code: 0 })).toMatchObject({ kind: 'expired' });
});
