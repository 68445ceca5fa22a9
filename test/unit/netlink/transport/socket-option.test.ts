import { expect, test } from '@jest/globals';
import { loadAddon } from '../../../../src/netlink/transport/addon.ts';

const { socketOption } = loadAddon() as unknown as { socketOption: (...args: unknown[]) => unknown };
const INET = 2;
const SOL_SOCKET = 1;
const SO_TYPE = 3;

test('the value is what the kernel makes of it, and the argument is left alone', () => {
  const value = new Uint8Array(8).fill(7);
  expect(socketOption(INET, SOL_SOCKET, SO_TYPE, value)).toEqual(Uint8Array.of(2, 0, 0, 0));
  expect(value).toEqual(new Uint8Array(8).fill(7));
});

test('errors have the errno', () => {
  const value = new Uint8Array(4);
  expect(() => socketOption(999, SOL_SOCKET, SO_TYPE, value)).toThrow(expect.objectContaining({ errno: 97 }));
  expect(() => socketOption(INET, SOL_SOCKET, 9_999, value)).toThrow(
    expect.objectContaining({ operation: 'getsockopt', errno: 92 }),
  );
});

test.each([undefined, 'x', -1, 0.5])('a domain, a level or an option that is %p is refused', (bad) => {
  const value = new Uint8Array(4);
  expect(() => socketOption(bad, SOL_SOCKET, SO_TYPE, value)).toThrow(/domain must be a whole number/);
  expect(() => socketOption(INET, bad, SO_TYPE, value)).toThrow(/level must be a whole number/);
  expect(() => socketOption(INET, SOL_SOCKET, bad, value)).toThrow(/option must be a whole number/);
});

test.each([undefined, null, 4, 'four'])('a value that is %p is refused', (bad) => {
  expect(() => socketOption(INET, SOL_SOCKET, SO_TYPE, bad)).toThrow(/value must be a Uint8Array/);
});
