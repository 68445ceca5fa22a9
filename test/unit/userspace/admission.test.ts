import { expect, test } from '@jest/globals';
import { Admission } from '../../../src/userspace/admission.ts';

const CLIENT = '10.244.0.1';

/** Admits until a bound is reached. Returns how many were admitted, and which bound it was. */
function fill(admission: Admission, service: string, clientOf: (count: number) => string): [number, string] {
  for (let count = 0; ; count++) {
    const admitted = admission.admit(service, clientOf(count));
    if (typeof admitted === 'string') return [count, admitted];
  }
}

test('a client has a quarter of a Service, a namespace half of all', () => {
  const admission = new Admission({ mostOfService: 8, mostInAll: 20 });
  const others = (count: number): string => `10.244.1.${count}`;
  expect(fill(admission, 'a/web', () => CLIENT)).toEqual([2, 'client']);
  expect(fill(admission, 'a/web', others)).toEqual([6, 'service']);
  expect(fill(admission, 'a/dns', others)).toEqual([2, 'namespace']);
  expect(fill(admission, 'b/web', others)).toEqual([8, 'service']);
  expect(fill(admission, 'c/web', others)).toEqual([2, 'all']);
});

test('clients on the node itself have the whole Service', () => {
  const admission = new Admission({ mostOfService: 8, mostInAll: 20 });
  expect(fill(admission, 'a/web', () => '127.0.0.1')).toEqual([8, 'service']);
});

test('what has ended counts no more, however often it is ended', () => {
  const admission = new Admission({ mostOfService: 4, mostInAll: 8 });
  const end = admission.admit('a/web', CLIENT);
  expect(admission.admit('a/web', CLIENT)).toBe('client');
  if (typeof end === 'function') for (let count = 0; count < 3; count++) end();
  expect(fill(admission, 'a/web', () => CLIENT)).toEqual([1, 'client']);
});
