import type { ServerOp } from '../../../src/state/op.ts';
import { describe, expect, test } from '@jest/globals';
import { applyServiceOps } from '../../../src/kernel/service-ops.ts';
import { address, endpoint, realServer, virtualServer } from '../../contract/objects.ts';

const ID = virtualServer(address(4, 1), 80, 'TCP', { scheduler: 'random' });
const ADD: ServerOp = { kind: 'add-virtual-server', virtualServer: ID };

function server(kind: 'add-real-server' | 'edit-real-server', n: number, weight = 1): ServerOp {
  return { kind, id: ID, realServer: { ...realServer(endpoint(4, n), 80), weight } };
}

function removed(n: number): ServerOp {
  return { kind: 'delete-real-server', id: ID, realServer: realServer(endpoint(4, n), 80) };
}

function endpoints(...numbers: readonly number[]) {
  return numbers.map((n) => ({ address: endpoint(4, n), port: 80 }));
}

describe('operations on a virtual server', () => {
  const before = applyServiceOps(undefined, [ADD, ...[1, 2, 3, 4].map((n) => server('add-real-server', n))]).after;

  test.each<readonly [string, readonly ServerOp[], readonly number[]]>([
    ['nothing', [], [1, 2, 3, 4]],
    ['an endpoint is added', [server('add-real-server', 5)], [1, 2, 3, 4, 5]],
    ['an endpoint is there already', [server('add-real-server', 2)], [1, 2, 3, 4]],
    ['the last endpoint takes the index of a removed one', [removed(2)], [1, 4, 3]],
    ['the last endpoint is removed', [removed(4)], [1, 2, 3]],
    ['one that took another index is removed', [removed(1), removed(4)], [3, 2]],
    ['an endpoint is removed and added', [removed(1), server('add-real-server', 1)], [4, 2, 3, 1]],
    ['an unknown endpoint is removed', [removed(9)], [1, 2, 3, 4]],
    ['without weight it is no endpoint', [server('edit-real-server', 3, 0)], [1, 2, 4]],
    ['added anew', [{ kind: 'delete-virtual-server', id: ID }, ADD, server('add-real-server', 7)], [7]],
  ])('%s', (_name, ops, expected) => {
    expect(applyServiceOps(before, ops)).toEqual({
      after: { affinity: 0, endpoints: endpoints(...expected) },
      settings: ops.includes(ADD) ? ID : undefined,
      failures: [],
    });
    // The state before is still that of the kernel, if the change is refused.
    expect(before?.endpoints).toEqual(endpoints(1, 2, 3, 4));
  });

  test('failures do not stop the others', () => {
    const { after, failures } = applyServiceOps(before, [server('edit-real-server', 9), removed(4)]);
    expect(failures.map(({ code }) => code)).toEqual(['ENOENT']);
    expect(after?.endpoints).toEqual(endpoints(1, 2, 3));
    const gone = [{ kind: 'delete-virtual-server', id: ID } as const, server('add-real-server', 1), removed(1)];
    expect(applyServiceOps(before, gone)).toMatchObject({ after: undefined, failures: [{ code: 'ESRCH' }] });
  });

  test('take a time that grows with their number, not with its square', () => {
    const many = Array.from({ length: 50_000 }, (_, n) => n);
    const since = process.cpuUsage();
    const { after } = applyServiceOps(undefined, [ADD, ...many.map((n) => server('add-real-server', n))]);
    expect(after?.endpoints).toHaveLength(many.length);
    expect(applyServiceOps(after, many.map(removed)).after?.endpoints).toEqual([]);
    // With a copy of the list for each, they take 30 s.
    expect(process.cpuUsage(since).user).toBeLessThan(4_000_000);
  });
});
