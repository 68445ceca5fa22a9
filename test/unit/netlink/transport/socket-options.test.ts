import { expect, test } from '@jest/globals';
import { loadAddon } from '../../../../src/netlink/transport/addon.ts';

const { socketOptions } = loadAddon() as unknown as { socketOptions: (...args: unknown[]) => unknown };
const INET = 2;
const SOL_SOCKET = 1;
const SO_TYPE = 3;
const SOCK_DGRAM = 2;
const FOUR = Uint32Array.of(4);

test('each value becomes what the kernel makes of it', () => {
  const values = new Uint8Array(12).fill(7);
  socketOptions(undefined, INET, SOL_SOCKET, SO_TYPE, values, Uint32Array.of(4, 8));
  expect(values).toEqual(Uint8Array.of(SOCK_DGRAM, 0, 0, 0, SOCK_DGRAM, 0, 0, 0, 7, 7, 7, 7));
});

test('values that the kernel refuses become zeros', () => {
  const values = new Uint8Array(4).fill(7);
  socketOptions(undefined, INET, SOL_SOCKET, 9_999, values, FOUR);
  expect(values).toEqual(new Uint8Array(4));
});

test('without a socket, the error has the errno', () => {
  const open = (netns: string | undefined, domain: number) =>
    socketOptions(netns, domain, SOL_SOCKET, SO_TYPE, new Uint8Array(4), FOUR);
  expect(() => open(undefined, 999)).toThrow(expect.objectContaining({ operation: 'open socket', errno: 97 }));
  expect(() => open('/nonexistent', INET)).toThrow(
    expect.objectContaining({ operation: 'open network namespace', errno: 2 }),
  );
});

test.each([
  ['netns', /netns must be a string/, [4, INET, SOL_SOCKET, SO_TYPE, new Uint8Array(4), FOUR]],
  ['domain', /domain must be a whole number/, [undefined, -1, SOL_SOCKET, SO_TYPE, new Uint8Array(4), FOUR]],
  ['level', /level must be a whole number/, [undefined, INET, 'x', SO_TYPE, new Uint8Array(4), FOUR]],
  ['option', /option must be a whole number/, [undefined, INET, SOL_SOCKET, 0.5, new Uint8Array(4), FOUR]],
  ['values', /values must be a Uint8Array/, [undefined, INET, SOL_SOCKET, SO_TYPE, null, FOUR]],
  ['lengths', /lengths must be a Uint32Array/, [undefined, INET, SOL_SOCKET, SO_TYPE, new Uint8Array(4), [4]]],
  ['sum', /lengths must divide values/, [undefined, INET, SOL_SOCKET, SO_TYPE, new Uint8Array(4), Uint32Array.of(5)]],
])('a wrong %s is refused', (_what, text, args) => {
  expect(() => socketOptions(...args)).toThrow(text);
});
