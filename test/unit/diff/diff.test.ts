import { describe, expect, test } from '@jest/globals';
import { diffAddresses } from '../../../src/diff/address-diff.ts';
import { diffRoutes } from '../../../src/diff/route-diff.ts';
import { type Cidr, parseCidr } from '../../../src/base/cidr.ts';
import { DrainLedger } from '../../../src/diff/drain.ts';
import { diffIpSet } from '../../../src/diff/ip-set-diff.ts';
import { diffVirtualServer } from '../../../src/diff/virtual-server-diff.ts';
import { type BoundAddress, hostPrefix } from '../../../src/state/bound-address.ts';
import { type IpSet, type IpSetEntry, type IpSetEntryKey, ipSetEntryKey } from '../../../src/state/ip-set.ts';
import { type Op, formatOp } from '../../../src/state/op.ts';
import { PHASES, Transaction } from '../../../src/state/transaction.ts';
import { FORWARDING, type ObservedRealServer } from '../../../src/state/real-server.ts';
import { VS_PERSISTENT } from '../../../src/state/virtual-server.ts';
import { address, observed, real, virtualServer, vsId } from '../../support/state.ts';
import { addingOrder } from '../../../src/diff/adding-order.ts';

const ID = vsId('10.96.0.1', 80);
const VS = { ...virtualServer('10.96.0.1', 80), scheduler: 'sh' };
const ORDER = addingOrder({ nodeName: 'node-a' });

function words(ops: Iterable<Op>): string[] {
  return Array.from(ops, formatOp);
}

/** Runs a computation that pauses now and then to its end. */
function finish<T>(steps: Iterator<void, T>): T {
  for (;;) {
    const { done, value } = steps.next();
    if (done === true) return value;
  }
}

describe('diffVirtualServer', () => {
  const run = (
    want: Parameters<typeof diffVirtualServer>[1],
    have: Parameters<typeof diffVirtualServer>[2],
    ledger = new DrainLedger(0),
    now = 0,
    id = ID,
  ): Op[] => {
    const tx = new Transaction();
    diffVirtualServer(id, want, have, { order: ORDER, ledger, now }, tx);
    return [...tx];
  };

  test('equal: nothing', () => {
    const have = { virtualServer: VS, realServers: [observed('10.244.0.1', 1)] };
    expect(run({ virtualServer: VS, realServers: [real('10.244.0.1', 1)] }, have)).toEqual([]);
  });

  test.each([
    ['in the order of the plan', (servers: readonly ObservedRealServer[]) => servers],
    ['in another order', (servers: readonly ObservedRealServer[]) => servers.toReversed()],
  ])('only what differs is changed, whatever is equal around it, %s', (_order, arranged) => {
    const ip = (last: number): string => `10.244.0.${last}`;
    const want = [1, 2, 4, 5, 7, 8].map((last) => real(ip(last), 1));
    const have = [1, 2, 3, 5, 6, 7, 8].map((last) => observed(ip(last), last === 5 ? 0 : 1));
    const diff = run({ virtualServer: VS, realServers: want }, { virtualServer: VS, realServers: arranged(have) });
    expect(words(diff).sort()).toEqual([
      'add-real-server TCP 10.96.0.1:80 -> 10.244.0.4:8080 weight=1',
      'delete-real-server TCP 10.96.0.1:80 -> 10.244.0.3:8080 weight=0',
      'delete-real-server TCP 10.96.0.1:80 -> 10.244.0.6:8080 weight=0',
      'edit-real-server TCP 10.96.0.1:80 -> 10.244.0.5:8080 weight=1',
    ]);
  });

  test('missing: added with all its real servers', () => {
    expect(words(run({ virtualServer: VS, realServers: [real('10.244.0.1', 1)] }, undefined))).toEqual([
      'add-virtual-server TCP 10.96.0.1:80 sh flags=0 timeout=0',
      'add-real-server TCP 10.96.0.1:80 -> 10.244.0.1:8080 weight=1',
    ]);
  });

  test('unwanted: deleted, its real servers with it', () => {
    const have = { virtualServer: VS, realServers: [observed('10.244.0.1', 1, { activeConnections: 9 })] };
    expect(words(run(undefined, have))).toEqual(['delete-virtual-server TCP 10.96.0.1:80']);
    expect(run(undefined, undefined)).toEqual([]);
  });

  test.each([
    ['scheduler', { scheduler: 'rr' }],
    ['flags', { flags: VS_PERSISTENT }],
    ['timeout', { timeout: 60 }],
    ['prefix', { prefix: 24 }],
  ])('another %s: edited in place', (_what, change) => {
    const diff = run({ virtualServer: VS, realServers: [] }, { virtualServer: { ...VS, ...change }, realServers: [] });
    expect(words(diff)).toEqual(['edit-virtual-server TCP 10.96.0.1:80 sh flags=0 timeout=0']);
  });

  test.each([
    ['weight', observed('10.244.0.1', 0)],
    ['forwarding method', observed('10.244.0.1', 1, { forwarding: 3 })],
  ])('a real server with another %s is edited', (_what, server) => {
    const diff = run(
      { virtualServer: VS, realServers: [real('10.244.0.1', 1)] },
      { virtualServer: VS, realServers: [server] },
    );
    expect(words(diff)).toEqual(['edit-real-server TCP 10.96.0.1:80 -> 10.244.0.1:8080 weight=1']);
  });

  test('a real server with a wanted forwarding method stays; with NAT it is edited', () => {
    const want = { virtualServer: VS, realServers: [{ ...real('10.244.0.1', 1), forwarding: FORWARDING.tunnel }] };
    const have = (forwarding: number): Parameters<typeof run>[1] => ({
      virtualServer: VS,
      realServers: [observed('10.244.0.1', 1, { forwarding })],
    });
    expect(run(want, have(FORWARDING.tunnel))).toEqual([]);
    expect(words(run(want, have(FORWARDING.nat)))).toEqual([
      'edit-real-server TCP 10.96.0.1:80 -> 10.244.0.1:8080 weight=1 forwarding=tunnel',
    ]);
  });

  test.each([
    ['type', { tunnelType: 2 }],
    ['port', { tunnelPort: 5555 }],
    ['checksum', { tunnelFlags: 1 }],
  ])('a real server whose tunnel has another %s is edited', (_what, tunnel) => {
    const gue = { forwarding: FORWARDING.tunnel, tunnelType: 1, tunnelPort: 6080 };
    const want = { virtualServer: VS, realServers: [{ ...real('10.244.0.1', 1), ...gue }] };
    const have = (fields: Partial<ObservedRealServer>): Parameters<typeof run>[1] => ({
      virtualServer: VS,
      realServers: [observed('10.244.0.1', 1, { ...gue, ...fields })],
    });
    expect(run(want, have({}))).toEqual([]);
    expect(words(run(want, have(tunnel)))).toEqual([
      'edit-real-server TCP 10.96.0.1:80 -> 10.244.0.1:8080 weight=1 forwarding=tunnel-gue:6080',
    ]);
  });

  test('with NAT again, a real server keeps the tunnel of its open connections', () => {
    const gre = { tunnelType: 2, tunnelPort: 0, tunnelFlags: 0 };
    const want = { virtualServer: VS, realServers: [real('10.244.0.1', 1)] };
    const have = (forwarding: number) => ({
      virtualServer: VS,
      realServers: [observed('10.244.0.1', 1, { forwarding, ...gre })],
    });
    const realServer = { ...real('10.244.0.1', 1), tunnelType: 2 };
    expect(run(want, have(FORWARDING.tunnel))).toMatchObject([{ kind: 'edit-real-server', realServer }]);
    expect(run(want, have(FORWARDING.nat))).toEqual([]);
  });

  test('a draining real server keeps its forwarding method', () => {
    const server = observed('10.244.0.1', 1, { activeConnections: 1, forwarding: FORWARDING.route });
    expect(words(run({ virtualServer: VS, realServers: [] }, { virtualServer: VS, realServers: [server] }))).toEqual([
      'edit-real-server TCP 10.96.0.1:80 -> 10.244.0.1:8080 weight=0 forwarding=route',
    ]);
  });

  describe('an unwanted real server', () => {
    const want = { virtualServer: VS, realServers: [] };

    test.each([
      ['without connections is deleted', observed('10.244.0.1', 1), 'delete-real-server', 0],
      ['with active ones drains', observed('10.244.0.1', 1, { activeConnections: 1 }), 'edit-real-server', 1],
      ['with inactive ones drains', observed('10.244.0.1', 1, { inactiveConnections: 1 }), 'edit-real-server', 1],
      ['that drains already is left alone', observed('10.244.0.1', 0, { activeConnections: 1 }), undefined, 1],
    ])('%s', (_what, server, kind, draining) => {
      const ledger = new DrainLedger(0);
      const diff = run(want, { virtualServer: VS, realServers: [server] }, ledger);
      expect(diff.map((op) => op.kind)).toEqual(kind === undefined ? [] : [kind]);
      expect(ledger.servers).toBe(draining);
    });

    test.each(['UDP', 'SCTP'] as const)('of %s is deleted at once, connections or not', (protocol) => {
      const id = { ...ID, protocol };
      const have = {
        virtualServer: { ...VS, protocol },
        realServers: [observed('10.244.0.1', 1, { activeConnections: 5 })],
      };
      const diff = run({ virtualServer: have.virtualServer, realServers: [] }, have, new DrainLedger(0), 0, id);
      expect(diff.map((op) => op.kind)).toEqual(['delete-real-server']);
    });

    test('the next check is due after 5 s, or at the deadline of the real server that has drained longest', () => {
      const ledger = new DrainLedger(6_000);
      const draining = (text: string): ReturnType<typeof observed> => observed(text, 0, { activeConnections: 1 });
      expect(ledger.dueAt).toBe(Infinity);
      ledger.decide(ID, draining('10.244.0.1'), 100);
      ledger.decide(ID, draining('10.244.0.2'), 300);
      expect(ledger.dueAt).toBe(5_100);
      expect(ledger.takeDue(5_099)).toEqual([]);
      expect(ledger.takeDue(5_100)).toEqual([ID]);
      ledger.decide(ID, draining('10.244.0.2'), 5_100);
      expect(ledger.dueAt).toBe(6_300);
      ledger.decide(ID, draining('10.244.0.1'), 5_100);
      expect(ledger.dueAt).toBe(6_100);
      expect(ledger.decide(ID, draining('10.244.0.1'), 6_100)).toBe('delete');
    });

    const gone = { virtualServer: VS, realServers: [observed('10.244.0.9', 1)] };
    const wanted = { virtualServer: VS, realServers: [real('10.244.0.9', 1)] };
    test.each([
      ['was deleted by another process', gone, wanted],
      ['was deleted with its virtual server', undefined, wanted],
      ['was deleted with its Service', undefined, undefined],
      ['was deleted by another process, and is wanted again', gone, want],
    ] as const)('a real server that drains again gets a new deadline: it %s', (_how, seen, wish) => {
      const ledger = new DrainLedger(1_000);
      const have = { virtualServer: VS, realServers: [observed('10.244.0.1', 1, { activeConnections: 1 })] };
      const nobody = { virtualServer: VS, realServers: [] };
      expect(words(run(nobody, have, ledger, 0))).toEqual([
        'edit-real-server TCP 10.96.0.1:80 -> 10.244.0.1:8080 weight=0',
      ]);
      run(wish, seen, ledger, 500);
      expect([ledger.servers, ledger.dueAt]).toEqual([0, Infinity]);
      expect(words(run(nobody, have, ledger, 5_000))).toEqual([
        'edit-real-server TCP 10.96.0.1:80 -> 10.244.0.1:8080 weight=0',
      ]);
      expect([ledger.servers, ledger.dueAt]).toEqual([1, 6_000]);
    });

    test('is deleted at the deadline, which starts again if the real server was wanted in between', () => {
      const ledger = new DrainLedger(1_000);
      const have = { virtualServer: VS, realServers: [observed('10.244.0.1', 0, { activeConnections: 1 })] };
      run(want, have, ledger, 0);
      expect(ledger.servers).toBe(1);
      run(want, have, ledger, 999);
      expect(ledger.servers).toBe(1);
      run({ virtualServer: VS, realServers: [real('10.244.0.1', 1)] }, have, ledger, 999);
      expect([ledger.servers, ledger.dueAt]).toEqual([0, Infinity]);
      run(want, have, ledger, 1_000);
      expect(ledger.servers).toBe(1);
      run(want, have, ledger, 1_999);
      expect(ledger.servers).toBe(1);
      expect(words(run(want, have, ledger, 2_000))).toEqual([
        'delete-real-server TCP 10.96.0.1:80 -> 10.244.0.1:8080 weight=0',
      ]);
      expect([ledger.servers, ledger.dueAt]).toEqual([0, Infinity]);
    });
  });
});

describe('diffAddresses', () => {
  const bound = (text: string, details: Partial<BoundAddress> = {}): BoundAddress => ({
    address: address(text),
    prefix: hostPrefix(address(text)),
    conforms: true,
    ...details,
  });

  test('binds what is missing, unbinds what is not wanted, in both families', () => {
    const wanted = [address('10.96.0.1'), address('fd00::1')];
    const ops = finish(diffAddresses(wanted, [bound('10.96.0.2'), bound('fd00::1')]));
    expect(ops.map(formatOp)).toEqual(['bind-address 10.96.0.1', 'unbind-address 10.96.0.2']);
  });

  test('binds anew what has lost its local route', () => {
    const wanted = [address('10.96.0.1'), address('fd00::1')];
    const have = [bound('10.96.0.1', { unrouted: true }), bound('fd00::1', { conforms: false, unrouted: true })];
    expect(finish(diffAddresses(wanted, have)).map(formatOp)).toEqual([
      'bind-address 10.96.0.1 again, for its local route',
      'bind-address fd00::1 again, for its local route',
    ]);
  });

  test('binds again what has other flags, and removes what has another prefix', () => {
    const wanted = [address('10.96.0.1'), address('10.96.0.2'), address('fd00::1'), address('fd00::2')];
    const have = [
      bound('10.96.0.1', { conforms: false }),
      bound('10.96.0.2', { prefix: 24 }),
      bound('10.96.0.3', { prefix: 24 }),
      bound('fd00::1', { conforms: false }),
      // An interface has it once only: removing it would leave the node without.
      bound('fd00::2', { prefix: 64 }),
      bound('fd00::3', { prefix: 64 }),
    ];
    expect(finish(diffAddresses(wanted, have)).map(formatOp)).toEqual([
      'bind-address 10.96.0.1',
      'bind-address 10.96.0.2',
      'bind-address fd00::1',
      'unbind-address fd00::3/64',
      'unbind-address 10.96.0.2/24',
      'unbind-address 10.96.0.3/24',
    ]);
  });
});

describe('diffRoutes', () => {
  const cidr = (text: string): Cidr => parseCidr(text)!;

  test('adds what is missing, deletes ours that are not wanted; what somebody else made serves as well, and stays', () => {
    const ops = diffRoutes(
      [cidr('10.96.0.0/12'), cidr('fd00:96::/112'), cidr('10.112.0.0/12')],
      [
        { cidr: cidr('10.96.0.0/13'), ours: true },
        { cidr: cidr('fd00:96::/112'), ours: true },
        { cidr: cidr('10.112.0.0/12'), ours: false },
        { cidr: cidr('10.200.0.0/16'), ours: false },
      ],
    );
    expect(ops.map(formatOp)).toEqual(['add-route 10.96.0.0/12', 'delete-route 10.96.0.0/13']);
  });
});

describe('diffIpSet', () => {
  const set: IpSet = { name: 'KUBE-CLUSTER-IP', type: 'hash:ip', family: 4, maxEntries: 65_536 };
  const entry = (text: string): IpSetEntry => ({ type: 'hash:ip', address: address(text) });
  const want = (...texts: string[]): Map<IpSetEntryKey, { readonly entry: IpSetEntry }> =>
    new Map(texts.map((text) => [ipSetEntryKey(entry(text)), { entry: entry(text) }]));

  test('creates, adds, deletes', () => {
    expect(words(finish(diffIpSet(set, want('10.0.0.1'), undefined)))).toEqual([
      'create-set KUBE-CLUSTER-IP hash:ip',
      'add-entry KUBE-CLUSTER-IP 10.0.0.1',
    ]);
    const have = { ...set, entries: [entry('10.0.0.1'), entry('10.0.0.2')] };
    expect(words(finish(diffIpSet(set, want('10.0.0.2', '10.0.0.3'), have)))).toEqual([
      'add-entry KUBE-CLUSTER-IP 10.0.0.3',
      'delete-entry KUBE-CLUSTER-IP 10.0.0.1',
    ]);
    expect(finish(diffIpSet(set, want('10.0.0.1', '10.0.0.2'), have))).toEqual([]);
  });

  test('a set that is too small is grown with all wanted entries; a larger one is left', () => {
    const have = { ...set, maxEntries: 1_024, entries: [entry('10.0.0.9')] };
    const [op] = finish(diffIpSet(set, want('10.0.0.1', '10.0.0.2'), have));
    expect(op).toMatchObject({ kind: 'grow-set', entries: [entry('10.0.0.1'), entry('10.0.0.2')] });
    expect(finish(diffIpSet(set, want('10.0.0.9'), { ...have, maxEntries: 1 << 20 }))).toEqual([]);
  });
});

test('a transaction has its operations in the order of the phases, stable within each', () => {
  const set: IpSet = { name: 's', type: 'hash:ip', family: 4, maxEntries: 1 };
  const entry = { type: 'hash:ip' as const, address: address('10.0.0.1') };
  const realServer = real('10.244.0.1', 1);
  const ops = [
    { kind: 'destroy-set' as const, set },
    { kind: 'delete-entry' as const, set, entry },
    { kind: 'delete-virtual-server' as const, id: ID },
    { kind: 'delete-real-server' as const, id: ID, realServer },
    { kind: 'delete-route' as const, cidr: parseCidr('10.0.0.0/8')! },
    { kind: 'unbind-address' as const, address: address('10.0.0.1') },
    { kind: 'bind-address' as const, address: address('10.0.0.2') },
    { kind: 'bind-address' as const, address: address('10.0.0.1') },
    { kind: 'add-route' as const, cidr: parseCidr('fd00::/64')! },
    { kind: 'edit-real-server' as const, id: ID, realServer },
    { kind: 'add-real-server' as const, id: ID, realServer },
    { kind: 'edit-virtual-server' as const, virtualServer: VS },
    { kind: 'add-virtual-server' as const, virtualServer: VS },
    { kind: 'add-entry' as const, set, entry },
    { kind: 'grow-set' as const, set, entries: [] },
    { kind: 'create-set' as const, set },
  ];
  const sorted = [...new Transaction(ops)];
  expect([...new Set(sorted.map((op) => op.kind))]).toEqual([...PHASES]);
  expect(sorted.filter((op) => op.kind === 'bind-address').map(formatOp)).toEqual([
    'bind-address 10.0.0.2',
    'bind-address 10.0.0.1',
  ]);
});
