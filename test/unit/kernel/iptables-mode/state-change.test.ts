import { describe, expect, test } from '@jest/globals';
import { ProxyState } from '../../../../src/kernel/iptables-mode/proxy-state.ts';
import { type StateOp, applyToState } from '../../../../src/kernel/iptables-mode/state-change.ts';
import { plannedSet } from '../../../../src/plan/set-names.ts';
import { address, endpoint, realServer, virtualServer } from '../../../contract/objects.ts';

const SERVICE = { scheduler: 'random', servicePort: 'default/web:http' };
const ADDRESSES = [1, 2, 3, 4, 5].map((n) => virtualServer(address(4, n), 80, 'TCP', SERVICE));

function added(endpoints: number): StateOp[] {
  return ADDRESSES.flatMap((vs): StateOp[] => [
    { kind: 'add-virtual-server', virtualServer: vs },
    { kind: 'add-entry', set: plannedSet('CLUSTER-IP', 4, 0), entry: entryOf(vs) },
    ...Array.from({ length: endpoints }, (_, n): StateOp => {
      return { kind: 'add-real-server', id: vs, realServer: realServer(endpoint(4, n), 80) };
    }),
  ]);
}

function entryOf({ address: at, port, protocol }: (typeof ADDRESSES)[number]) {
  return { type: 'hash:ip,port', address: at, port, protocol } as const;
}

function contents(state: ProxyState) {
  return { servers: [...state.servers()], clusterIps: [...state.entriesOf('KUBE-CLUSTER-IP')] };
}

describe('operations on the state', () => {
  test('are undone as a whole, those of several virtual servers and of entries', () => {
    const state = new ProxyState(4);
    applyToState(state, added(2));
    const before = contents(state);
    const [first, second, third] = ADDRESSES;
    const renamed = { ...second!, servicePort: 'default/other:http' };
    const { failures, undo } = applyToState(state, [
      { kind: 'edit-virtual-server', virtualServer: renamed },
      { kind: 'edit-virtual-server', virtualServer: { ...third!, scheduler: 'rr', servicePort: 'default/rr' } },
      { kind: 'delete-real-server', id: second!, realServer: realServer(endpoint(4, 0), 80) },
      { kind: 'delete-virtual-server', id: first! },
      { kind: 'delete-entry', set: plannedSet('CLUSTER-IP', 4, 0), entry: entryOf(first!) },
      { kind: 'add-entry', set: plannedSet('CLUSTER-IP', 4, 0), entry: entryOf(first!) },
      { kind: 'delete-entry', set: plannedSet('CLUSTER-IP', 4, 0), entry: entryOf(second!) },
    ]);
    expect(failures.map(({ code }) => code)).toEqual(['EOPNOTSUPP']);
    expect(state.server(first!)).toBeUndefined();
    expect(state.server(second!)).toMatchObject({ name: 'default/other:http', state: { endpoints: [{ port: 80 }] } });
    // A refused edit does not rename it.
    expect(state.server(third!)).toMatchObject({ name: 'default/web:http' });
    expect(contents(state).clusterIps).toHaveLength(ADDRESSES.length - 1);
    undo();
    expect(new Set(contents(state).servers)).toEqual(new Set(before.servers));
    expect(new Set(contents(state).clusterIps)).toEqual(new Set(before.clusterIps));
  });

  // A copy of the list for each operation takes 500 MB, of which the daemon has 512.
  test('on a Service with 5,000 endpoints at 5 addresses take little memory', () => {
    const state = new ProxyState(4);
    const ops = added(5_000);
    const before = process.memoryUsage().heapUsed;
    const { undo } = applyToState(state, ops);
    expect((process.memoryUsage().heapUsed - before) / 2 ** 20).toBeLessThan(150);
    expect([...state.servers()].map(({ state: { endpoints } }) => endpoints.length)).toEqual(Array(5).fill(5_000));
    undo();
    expect([...state.servers()]).toEqual([]);
  });
});
