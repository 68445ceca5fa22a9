import { runInNewContext } from 'node:vm';
import { expect, test } from '@jest/globals';
import { errorText } from '../../../src/base/text/error-text.ts';

test('the text of an error with several causes has each cause once', () => {
  const refused = [
    'connect ECONNREFUSED ::1:6443',
    'connect ECONNREFUSED 127.0.0.1:6443',
    'connect ECONNREFUSED ::1:6443',
  ];
  const error = new AggregateError(refused.map((text) => new Error(text)));
  expect(errorText(error)).toBe('connect ECONNREFUSED ::1:6443; connect ECONNREFUSED 127.0.0.1:6443');
  expect(errorText(Object.assign(new AggregateError([]), { code: 'ETIMEDOUT' }))).toBe('ETIMEDOUT');
});

test('errors of another realm, and thrown values that are not errors, have a text', () => {
  expect(errorText(runInNewContext('new Error("refused")'))).toBe('refused');
  expect(errorText('refused')).toBe('refused');
  expect(errorText(undefined)).toBe('undefined');
  expect(errorText(new Error(''))).toBe('unknown error');
});
