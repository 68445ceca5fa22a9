import { describe, expect, test } from '@jest/globals';
import { AddingOrder } from '../../../src/diff/adding-order.ts';
import { formatOp, type Op } from '../../../src/state/op.ts';
import { formatRealServer } from '../../../src/state/real-server.ts';
import { type Transaction, transaction } from '../../../src/state/transaction.ts';
import { formatVirtualServer, type VirtualServerId } from '../../../src/state/virtual-server.ts';
import { real, virtualServer, vsId } from '../../support/state.ts';

const ENDPOINTS = Array.from({ length: 10 }, (_, at) => `10.244.0.${at + 1}`);
const WEB = vsId('10.96.0.10', 80);

function additions(id: VirtualServerId, endpoints: readonly string[] = ENDPOINTS): Op[] {
  return endpoints.map((text) => ({ kind: 'add-real-server', id, realServer: real(text, 1) }));
}

function arranged(nodeName: string, ops: readonly Op[], scheduler = 'rr'): Transaction {
  const steps = new AddingOrder({ nodeName, scheduler }).arrange(transaction(ops));
  for (;;) {
    const { done, value } = steps.next();
    if (done === true) return value;
  }
}

/** Whoever is added last stands first in the kernel's list (test/traffic/rolling-update.test.ts). */
function firstServed(nodeName: string, id: VirtualServerId, endpoints?: readonly string[]): string {
  const last = arranged(nodeName, additions(id, endpoints)).ops.at(-1);
  if (last?.kind !== 'add-real-server') throw new Error('no real server is added');
  return formatRealServer(last.realServer);
}

/** How many of the nodes begin with the endpoint that most of them begin with. */
function largestHerd(names: readonly string[], id: VirtualServerId, endpoints = ENDPOINTS): number {
  const first = new Map<string, number>();
  for (const name of names) {
    const server = firstServed(name, id, endpoints);
    first.set(server, (first.get(server) ?? 0) + 1);
  }
  return Math.max(...first.values());
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

  test('is a rotation of the sorted list, the same each time', () => {
    const ops = arranged('node-3', additions(WEB)).ops;
    expect(arranged('node-3', additions(WEB)).ops).toEqual(ops);
    const lines = ops.map(formatOp);
    const sorted = additions(WEB).map(formatOp);
    const offset = sorted.indexOf(lines[0] ?? '');
    expect(lines).toEqual([...sorted.slice(offset), ...sorted.slice(0, offset)]);
  });

  test('leaves everything else where it is, and single additions too', () => {
    const [a, b] = [vsId('10.96.0.1', 80), vsId('10.96.0.2', 80)];
    const ops: Op[] = [
      { kind: 'add-virtual-server', virtualServer: virtualServer('10.96.0.1', 80) },
      ...additions(a, ['10.244.0.1']),
      ...additions(b, ENDPOINTS.slice(0, 3)),
      { kind: 'bind-address', address: a.address },
    ];
    const tx = transaction(ops);
    const result = arranged('node-1', ops).ops;
    expect(result.map(({ kind }) => kind)).toEqual(tx.ops.map(({ kind }) => kind));
    const idsOf = (list: readonly Op[]): string[] =>
      list.flatMap((op) => (op.kind === 'add-real-server' ? [formatVirtualServer(op.id)] : []));
    expect(idsOf(result)).toEqual(idsOf(tx.ops));
    expect(result.map(formatOp).toSorted()).toEqual(tx.ops.map(formatOp).toSorted());
  });

  test.each(['sh', 'dh', 'mh'])('is the same on all nodes for %s, which hashes over the list', (scheduler) => {
    const tx = arranged('node-1', additions(WEB), scheduler);
    expect(tx.ops).toEqual(additions(WEB));
  });
});
