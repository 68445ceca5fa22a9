import { describe, expect, test } from '@jest/globals';
import { ProxyState } from '../../../../src/kernel/iptables-mode/proxy-state.ts';
import { type StateOp, applyToState, possibleOps, unitsOf } from '../../../../src/kernel/iptables-mode/state-change.ts';
import { readState } from '../../../../src/kernel/iptables-mode/state-reader.ts';
import { renderServicePort } from '../../../../src/kernel/iptables-mode/render/render-service-port.ts';
import { plannedSet } from '../../../../src/state/set-roles.ts';
import { addressTraits } from '../../../../src/state/address-traits.ts';
import type { VirtualServer } from '../../../../src/state/virtual-server.ts';
import { address, endpoint, realServer, virtualServer } from '../../../contract/objects.ts';

const SERVICE = { scheduler: 'random', servicePort: 'default/web:http', traits: addressTraits('cluster', true) };
const NODE_PORT_IP = plannedSet('NODE-PORT-IP', 4, 0);
const ADDRESSES = [1, 2, 3, 4, 5].map((n) => virtualServer(address(4, n), 80, 'TCP', SERVICE));

function added(endpoints: number): StateOp[] {
  return ADDRESSES.flatMap((vs): StateOp[] => [
    { kind: 'add-virtual-server', virtualServer: vs },
    { kind: 'add-entry', set: NODE_PORT_IP, entry: entryOf(vs) },
    ...Array.from({ length: endpoints }, (_, n): StateOp => {
      return { kind: 'add-real-server', id: vs, realServer: realServer(endpoint(4, n), 80) };
    }),
  ]);
}

function entryOf({ address: at }: (typeof ADDRESSES)[number]) {
  return { type: 'hash:ip', address: at } as const;
}

function contents(state: ProxyState) {
  return { servers: [...state.servers()], nodeAddresses: [...state.entriesOf(NODE_PORT_IP.name)] };
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
      { kind: 'delete-entry', set: NODE_PORT_IP, entry: entryOf(first!) },
      { kind: 'add-entry', set: NODE_PORT_IP, entry: entryOf(first!) },
      { kind: 'delete-entry', set: NODE_PORT_IP, entry: entryOf(second!) },
    ]);
    expect(failures.map(({ code }) => code)).toEqual(['EOPNOTSUPP']);
    expect(state.server(first!)).toBeUndefined();
    expect(state.server(second!)).toMatchObject({ name: 'default/other:http', state: { endpoints: [{ port: 80 }] } });
    // A refused edit does not rename it.
    expect(state.server(third!)).toMatchObject({ name: 'default/web:http' });
    expect(contents(state).nodeAddresses).toHaveLength(ADDRESSES.length - 1);
    undo();
    expect(new Set(contents(state).servers)).toEqual(new Set(before.servers));
    expect(new Set(contents(state).nodeAddresses)).toEqual(new Set(before.nodeAddresses));
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

  /** The lists of endpoints that virtual servers have, each once. */
  function lists(state: ProxyState) {
    return [...new Set(Array.from(state.servers(), ({ state: { endpoints } }) => endpoints))];
  }

  test('addresses of a service port with the same endpoints share the list, also one that is added later, or read', async () => {
    const state = new ProxyState(4);
    const ops = added(3);
    const ofLast = (op: StateOp): boolean => 'id' in op && op.id === ADDRESSES.at(-1);
    applyToState(
      state,
      ops.filter((op) => !ofLast(op)),
    );
    applyToState(state, ops.filter(ofLast).toReversed());
    expect(lists(state)).toHaveLength(1);
    const settings = { masqueradeMark: 0x4000, masqueradeAll: false, randomFully: true };
    const context = { settings, nodePortAddresses: [], hasServiceRule: () => false };
    const { chains, shared } = renderServicePort(state.servicePort('default/web:http TCP')!, context);
    const saved = new Map([
      ...chains.map(({ name, rules }) => [name, rules] as const),
      ['KUBE-SERVICES', shared.map(({ rule }) => rule)],
    ]);
    const read = await readState(new Map([['nat', saved]]), 4);
    expect([...read.servers()]).toEqual([...state.servers()]);
    expect(lists(read)).toHaveLength(1);
  });

  // If each change were compared with all addresses, this would take a minute.
  test('are applied to 20,000 addresses of two ports in a few seconds', () => {
    const state = new ProxyState(4);
    const addresses = Array.from({ length: 10_000 }, (_, n) =>
      [80, 443].map((number) =>
        virtualServer(endpoint(4, n), number, 'TCP', { ...SERVICE, servicePort: `a/b:${number}` }),
      ),
    ).flat();
    const servers = [1, 2, 3].map((n) => realServer(endpoint(4, n), 80));
    const startedAt = performance.now();
    applyToState(
      state,
      addresses.flatMap((vs): StateOp[] => [
        { kind: 'add-virtual-server', virtualServer: vs },
        ...servers.map((server): StateOp => ({ kind: 'add-real-server', id: vs, realServer: server })),
      ]),
    );
    const [gone] = servers;
    applyToState(
      state,
      addresses.toReversed().map((id) => ({ kind: 'delete-real-server', id, realServer: gone! })),
    );
    expect(performance.now() - startedAt).toBeLessThan(10_000);
    expect(lists(state).map(({ length }) => length)).toEqual([2, 2]);
  });

  test('that differ, or fail, are those of their virtual server', () => {
    const state = new ProxyState(4);
    applyToState(state, added(3));
    const [first, second, third, fourth] = ADDRESSES;
    const without = (vs: VirtualServer, n: number): StateOp => {
      return { kind: 'delete-real-server', id: vs, realServer: realServer(endpoint(4, n), 80) };
    };
    const edited = (vs: VirtualServer): StateOp => {
      return { kind: 'edit-real-server', id: vs, realServer: realServer(endpoint(4, 9), 80) };
    };
    const sticky = { kind: 'edit-virtual-server', virtualServer: { ...second!, timeout: 60 } } as const;
    const ops = [without(first!, 0), without(second!, 1), edited(third!), edited(fourth!), sticky];
    const { failures } = applyToState(state, ops);
    expect(failures.map(({ op }) => op)).toEqual([edited(third!), edited(fourth!)]);
    const left = (vs: VirtualServer) => state.server(vs)?.state.endpoints.map(({ address: at }) => at);
    const [a, b, c] = [0, 1, 2].map((n) => endpoint(4, n));
    expect([left(first!), left(second!), left(third!)]).toEqual([
      [b, c],
      [a, c],
      [a, b, c],
    ]);
    expect(ADDRESSES.map((vs) => state.server(vs)?.state.affinity)).toEqual([0, 60, 0, 0, 0]);
  });
});

// A call cannot have as many arguments.
const MANY = 150_000;

/** A virtual server that is not added, and its real servers. */
function unserved(protocol: 'TCP' | 'SCTP'): { readonly id: VirtualServer; readonly realServers: readonly StateOp[] } {
  const id = virtualServer(address(4, 9), 80, protocol, SERVICE);
  const realServers = Array.from({ length: MANY }, (_, n): StateOp => {
    return { kind: 'add-real-server', id, realServer: realServer(endpoint(4, n % 60_000), 80) };
  });
  return { id, realServers };
}

test(`${MANY} operations on a virtual server may fail`, () => {
  const { failures } = applyToState(new ProxyState(4), unserved('TCP').realServers);
  expect(failures).toHaveLength(MANY);
  expect(failures[0]).toMatchObject({ code: 'ESRCH' });
});

test('of a Service that needs what the kernel lacks, the endpoints are sorted out, too; others are not', () => {
  const lacks = [{ services: 'Services with SCTP ports', text: 'this kernel lacks it' }] as const;
  const { id, realServers } = unserved('SCTP');
  const add: StateOp = { kind: 'add-virtual-server', virtualServer: id };
  const others = [...added(2), ...unserved('TCP').realServers.slice(0, 3)];
  const { possible, failures } = possibleOps([...others, add, ...realServers], 4, lacks);
  expect(new Set(possible)).toEqual(new Set(others));
  expect(failures).toHaveLength(MANY + 1);
  expect(failures.at(-1)).toMatchObject({ code: 'UNSUPPORTED', text: 'this kernel lacks it' });
  // One that exists keeps its endpoints, though the edit is not possible.
  const edit: StateOp = { kind: 'edit-virtual-server', virtualServer: id };
  expect(possibleOps([edit, ...realServers.slice(0, 1)], 4, lacks).possible).toEqual(realServers.slice(0, 1));
});

test('what belongs together is a service port with all its addresses, and what is of the node', () => {
  const of = (at: number, number: number, name: string): StateOp => {
    const settings = { scheduler: 'random', servicePort: `default/${name}` };
    return { kind: 'add-virtual-server', virtualServer: virtualServer(address(4, at), number, 'TCP', settings) };
  };
  const nodeAddress: StateOp = {
    kind: 'add-entry',
    set: NODE_PORT_IP,
    entry: { type: 'hash:ip', address: address(4, 11) },
  };
  const state = new ProxyState(4);
  applyToState(state, [of(14, 80, 'a')]);
  const ofA = [of(11, 30_080, 'a'), of(13, 80, 'a')];
  const ofB = [of(12, 30_080, 'b')];
  const known: StateOp = { kind: 'delete-virtual-server', id: virtualServer(address(4, 14), 80) };
  const unknown: StateOp = { kind: 'delete-virtual-server', id: virtualServer(address(4, 15), 80) };
  const units = unitsOf(state, [ofA[0]!, ...ofB, nodeAddress, known, ofA[1]!, unknown]);
  expect(units).toEqual([[ofA[0], known, ofA[1]], ofB, [nodeAddress], [unknown]]);
});
