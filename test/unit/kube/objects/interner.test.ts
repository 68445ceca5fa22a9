import { expect, test } from '@jest/globals';
import { Interner } from '../../../../src/kube/objects/interner.ts';

test('names are kept up to the limit, and then the table is begun anew', () => {
  const interner = new Interner(2);
  for (const name of ['zone-a', 'zone-b', 'zone-a']) expect(interner.intern(name)).toBe(name);
  expect(interner.size).toBe(2);
  expect(interner.intern('zone-c')).toBe('zone-c');
  expect(interner.size).toBe(1);
});

test('a text that is longer than any name is returned, and not kept', () => {
  const interner = new Interner();
  const name = 'n'.repeat(253);
  const longer = 'z'.repeat(1024 * 1024);
  expect([interner.intern(name), interner.intern(longer)]).toEqual([name, longer]);
  const bytes = Buffer.from(longer);
  expect(interner.ofBytes(bytes, 0, bytes.length)).toBe(longer);
  expect(interner.size).toBe(1);
});
