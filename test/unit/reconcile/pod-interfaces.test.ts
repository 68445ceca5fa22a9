import { beforeEach, expect, test } from '@jest/globals';
import { PodInterfaces } from '../../../src/reconcile/pods/pod-interfaces.ts';

const NONE: ReadonlySet<string> = new Set();
const CNI = new Set(['cni0']);

let sysctls: Map<string, string>;
let interfaces: PodInterfaces;

/** A node where all Pods are behind cni0. */
const kernel = {
  getNodeAddresses: async () => await Promise.resolve([{ interfaceName: 'cni0' }, { interfaceName: 'eth0' }]),
  getSysctl: async (key: string) => await Promise.resolve(sysctls.get(key)),
  setSysctl: async (key: string, value: string) => {
    const before = sysctls.get(key) ?? '';
    sysctls.set(key, value);
    return await Promise.resolve({ changed: before !== value, before });
  },
} as unknown as ConstructorParameters<typeof PodInterfaces>[0];

/** "accept_local rp_filter" of cni0. */
function found(): string {
  return ['accept_local', 'rp_filter'].map((name) => sysctls.get(`net/ipv4/conf/cni0/${name}`)).join(' ');
}

beforeEach(() => {
  interfaces = new PodInterfaces(kernel);
  sysctls = new Map([
    ['net/ipv4/conf/all/rp_filter', '0'],
    ['net/ipv4/conf/cni0/accept_local', '0'],
    ['net/ipv4/conf/cni0/rp_filter', '1'],
  ]);
});

test('the interface accepts the answers of prepared Pods, and gets its own values back', async () => {
  await interfaces.update(CNI, NONE, CNI);
  expect(found()).toBe('3 2');
  await interfaces.update(CNI, NONE, CNI);
  expect(found()).toBe('3 2');
  await interfaces.update(NONE, NONE, NONE);
  expect(found()).toBe('0 1');
});

test('without reverse path filter, rp_filter stays', async () => {
  sysctls.set('net/ipv4/conf/cni0/rp_filter', '0');
  await interfaces.update(CNI, NONE, CNI);
  expect(found()).toBe('2 0');
  await interfaces.update(NONE, NONE, NONE);
  expect(found()).toBe('0 0');
});

test('a value of the operator stays', async () => {
  sysctls.set('net/ipv4/conf/cni0/accept_local', '1');
  sysctls.set('net/ipv4/conf/cni0/rp_filter', '0');
  await interfaces.update(CNI, NONE, CNI);
  await interfaces.update(NONE, NONE, CNI);
  expect(found()).toBe('1 0');
});

test('a restarted daemon sets back what it finds of the one before', async () => {
  await interfaces.update(CNI, NONE, CNI);
  await new PodInterfaces(kernel).update(NONE, NONE, NONE);
  expect(found()).toBe('0 1');
});

test('an interface that is gone is left out', async () => {
  await interfaces.update(CNI, NONE, CNI);
  sysctls.clear();
  await interfaces.update(NONE, NONE, NONE);
  expect(sysctls.size).toBe(0);
});

test('an interface that is kept is neither opened nor set back', async () => {
  await interfaces.update(NONE, CNI, CNI);
  expect(found()).toBe('0 1');
  await interfaces.update(CNI, NONE, CNI);
  await interfaces.update(NONE, CNI, CNI);
  expect(found()).toBe('3 2');
  await interfaces.update(NONE, NONE, NONE);
  expect(found()).toBe('0 1');
});
