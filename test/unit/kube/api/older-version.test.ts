import { expect, test } from '@jest/globals';
import { isOlder } from '../../../../src/kube/api/list.ts';

test.each([
  ['9', '10', true],
  ['10', '9', false],
  ['10', '10', false],
  ['9007199254740992', '9007199254740993', true],
  ['a9', '10', false],
  ['9', '', false],
])('version %s is older than %s: %s', (version, other, older) => {
  expect(isOlder(version, other)).toBe(older);
});
