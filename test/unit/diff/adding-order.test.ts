import { describe, expect, test } from '@jest/globals';
import { addingOrder } from '../../../src/diff/adding-order.ts';
import { DrainLedger } from '../../../src/diff/drain.ts';
import { diffVirtualServer } from '../../../src/diff/virtual-server-diff.ts';
import { formatRealServer } from '../../../src/state/real-server.ts';
import { Transaction } from '../../../src/state/transaction.ts';
import type { VirtualServerId } from '../../../src/state/virtual-server.ts';
import { observed, real, virtualServer, vsId } from '../../support/state.ts';

const ENDPOINTS = Array.from({ length: 10 }, (_, at) => real(`10.244.0.${at + 1}`, 1));
const SORTED = ENDPOINTS.map(formatRealServer);
const WEB = vsId('10.96.0.10', 80);

/** The real servers in the order in which the node adds them, of which the kernel has `found` already. */
function added(nodeName: string, id: VirtualServerId, scheduler = 'rr', found: readonly string[] = []): string[] {
  const settings = { ...virtualServer('10.96.0.10', 80), ...id, scheduler };
  const realServers = found.map((text) => observed(text, 1));
  const tx = new Transaction();
  const context = { order: addingOrder({ nodeName }), ledger: new DrainLedger(0), now: 0 };
  const wanted = { virtualServer: settings, realServers: ENDPOINTS };
  diffVirtualServer(id, wanted, found.length === 0 ? undefined : { virtualServer: settings, realServers }, context, tx);
  return tx.of('add-real-server').map(({ realServer }) => formatRealServer(realServer));
}

/** Whoever is added last stands first in the kernel's list (test/traffic/rolling-update.test.ts). */
function firstServed(nodeName: string, id: VirtualServerId): string | undefined {
  return added(nodeName, id).at(-1);
}

/** How many of the nodes begin with the endpoint that most of them begin with. */
function largestHerd(names: readonly string[], id: VirtualServerId): number {
  const herds = Map.groupBy(names, (name) => firstServed(name, id));
  return Math.max(...Array.from(herds.values(), ({ length }) => length));
}

describe('the order of adding', () => {
  test.each([
    ['node-0 to node-49', (at: number) => `node-${at}`],
    ['names of a cloud', (at: number) => `ip-10-0-${at % 4}-${at * 5}.eu-west-1.compute.internal`],
    ['worker names', (at: number) => `worker${String(at).padStart(3, '0')}.example`],
  ])('%s: of 50 first connections to 10 endpoints no endpoint gets more than 12', (_what, nameOf) => {
    const names = Array.from({ length: 50 }, (_, at) => nameOf(at));
    expect(largestHerd(names, WEB)).toBeLessThanOrEqual(12);
    expect(largestHerd(names, vsId('fd00::10', 443))).toBeLessThanOrEqual(12);
  });

  test('over many virtual servers one node begins everywhere in the list, and many nodes meet nowhere', () => {
    const begins = Array.from({ length: 200 }, (_, at) => firstServed('node-7', vsId(`10.96.1.${at + 1}`, 80)));
    expect(new Set(begins).size).toBe(ENDPOINTS.length);
    const names = Array.from({ length: 500 }, (_, at) => `node-${at}`);
    for (const port of [80, 443, 53]) expect(largestHerd(names, vsId('10.96.0.10', port))).toBeLessThan(90);
  });

  test('is a rotation of the sorted list of those that are missing, the same each time', () => {
    const order = added('node-3', WEB);
    expect(added('node-3', WEB)).toEqual(order);
    expect(order).not.toEqual(SORTED);
    const offset = SORTED.indexOf(order[0] ?? '');
    expect(order).toEqual([...SORTED.slice(offset), ...SORTED.slice(0, offset)]);
    expect(added('node-3', WEB, 'rr', ['10.244.0.1', '10.244.0.2']).toSorted()).toEqual(SORTED.slice(2).toSorted());
  });

  test.each(['sh', 'dh', 'mh', 'random'])(
    'is the same on all nodes for %s, which does not begin in the list',
    (scheduler) => {
      expect(added('node-1', WEB, scheduler)).toEqual(SORTED);
    },
  );
});
