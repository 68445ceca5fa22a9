import { expect, test } from '@jest/globals';
import type { Failure } from '../../cluster/trial/judge.ts';
import { atLocalPort, atNode } from '../../cluster/trial/trials/node-targets.ts';

function failure(target: string, cut = false): Failure {
  return {
    event: 'failure',
    at: 0,
    target,
    kind: 'timeout',
    cut,
    detail: '',
    ms: 5000,
    localPort: 0,
    client: 'host',
  };
}

test('only new connections to the local node port of that node', () => {
  const covers = atLocalPort('node-2');
  expect(covers(failure('Local NodePort of node-2'))).toBe(true);
  expect(covers(failure('Local NodePort of node-2 (IPv6)'))).toBe(true);
  expect(covers(failure('Local NodePort of node-2', true))).toBe(false);
  expect(covers(failure('Local NodePort of node-1'))).toBe(false);
  expect(covers(failure('NodePort of node-2'))).toBe(false);
});

test('all connections to addresses of that node', () => {
  const covers = atNode('node-2');
  expect(covers(failure('NodePort of node-2', true))).toBe(true);
  expect(covers(failure('Local NodePort of node-2 (IPv6)'))).toBe(true);
  expect(covers(failure('NodePort of node-1'))).toBe(false);
  expect(covers(failure('ClusterIP'))).toBe(false);
});
