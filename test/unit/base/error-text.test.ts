import { runInNewContext } from 'node:vm';
import { expect, test } from '@jest/globals';
import { errorText } from '../../../src/base/error-text.ts';

test('several addresses: each error once', () => {
  const refused = [
    'connect ECONNREFUSED ::1:6443',
    'connect ECONNREFUSED 127.0.0.1:6443',
    'connect ECONNREFUSED ::1:6443',
  ];
  const error = new AggregateError(refused.map((text) => new Error(text)));
  expect(errorText(error)).toBe('connect ECONNREFUSED ::1:6443; connect ECONNREFUSED 127.0.0.1:6443');
  expect(errorText(Object.assign(new AggregateError([]), { code: 'ETIMEDOUT' }))).toBe('ETIMEDOUT');
});

test('errors of another realm, and thrown values that are not errors', () => {
  expect(errorText(runInNewContext('new Error("refused")'))).toBe('refused');
  expect(errorText('refused')).toBe('refused');
  expect(errorText(undefined)).toBe('undefined');
  expect(errorText(new Error(''))).toBe('unknown error');
});
