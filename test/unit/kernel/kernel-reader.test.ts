import { expect, test } from '@jest/globals';
import { readOnlyKernel } from '../../../src/kernel/kernel-reader.ts';
import { FakeKernel } from '../../fake-kernel/fake-kernel.ts';

/** The methods of Kernel that change the node, or may. */
const WRITES = [
  'prepare',
  'ensureDevice',
  'removeDevice',
  'apply',
  'probeRules',
  'ensureRules',
  'addRules',
  'removeRules',
  'deleteFlows',
  'setSysctl',
  'setIpvsTimeouts',
  'probeScheduler',
] as const satisfies (keyof FakeKernel)[];

test('the reading half has no method that writes', () => {
  const half = readOnlyKernel(new FakeKernel());
  const names = Object.keys(half);
  expect(names.filter((name) => (WRITES as readonly string[]).includes(name))).toEqual([]);
  expect(
    names.filter((name) => !/^(get|find|list|compare|confirm|forget|preview|watch|counters|mode|close)/.test(name)),
  ).toEqual([]);
  expect(Object.getPrototypeOf(half)).toBe(Object.prototype);
  expect(Object.isFrozen(half)).toBe(true);
});

test('the reading half reads the kernel that it was made of', async () => {
  const kernel = new FakeKernel();
  const half = readOnlyKernel(kernel);
  kernel.sysctls.set('net/ipv4/ip_forward', '7');
  expect(await half.getSysctl('net/ipv4/ip_forward')).toBe('7');
  await kernel.prepare();
  expect(half.counters.writes).toBe(1);
});
