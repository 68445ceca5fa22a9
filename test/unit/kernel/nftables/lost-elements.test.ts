import { describe, expect, test } from '@jest/globals';
import { constantSets } from '../../../../src/kernel/nftables/objects/sets.ts';
import { FakeNftTable } from '../../../fake-kernel/fake-nft-table.ts';
import { nftablesPlane } from '../../../fake-kernel/planes.ts';
import { endpoint, listed, port, service, slice } from '../../../support/objects.ts';
import { startOn } from '../../../support/on-plane.ts';

/** Something in each set and map of the table. A load balancer IP that is in a source range is its own client. */
const CLUSTER = listed(
  [
    service('web', '10.96.0.10', {
      type: 'LoadBalancer',
      ports: [port(80, { nodePort: 30_080 })],
      externalIPs: ['203.0.113.9'],
      loadBalancerSourceRanges: ['192.168.9.0/24'],
      loadBalancerIngress: [{ ip: '192.168.9.100' }],
    }),
    service('alone', '10.96.0.11'),
    service('empty', '10.96.0.12'),
    service('local', '10.96.0.13', {
      type: 'LoadBalancer',
      ports: [port(80, { nodePort: 30_081 })],
      externalTrafficPolicy: 'Local',
      externalIPs: ['203.0.113.10'],
      loadBalancerIngress: [{ ip: '203.0.113.11' }],
    }),
  ],
  [
    slice('web', ['10.244.0.5', '10.244.0.6']),
    slice('alone', ['10.244.0.7']),
    slice('local', [endpoint('10.244.0.8', { nodeName: 'node-a' })]),
  ],
);

async function running(table: FakeNftTable) {
  const { run } = await startOn(nftablesPlane(table));
  await run.settle(...CLUSTER);
  return run;
}

function elementsOf(table: FakeNftTable): Record<string, readonly string[]> {
  const { sets } = table.tables.get(4)!;
  return Object.fromEntries(
    Array.from(sets, ([name, { elements }]) => [
      name,
      Array.from(elements.values(), (each) => JSON.stringify(each)).sort(),
    ]),
  );
}

const NAMES = constantSets(4).map(({ name }) => name);

describe('elements that another program deleted', () => {
  test('each set has some', async () => {
    const table = new FakeNftTable();
    const run = await running(table);
    const found = elementsOf(table);
    expect(NAMES.filter((name) => found[name]?.length === 0)).toEqual([]);
    await run.reconciler.stop();
  });

  test.each(NAMES)('all of %s: diff has commands, and a full check or a first sync adds them again', async (name) => {
    const table = new FakeNftTable();
    const lose = (): void => table.changeByOthers((found) => found!.sets.get(name)!.elements.clear());
    const run = await running(table);
    const before = elementsOf(table);
    lose();
    const { parts } = await run.reconciler.answers.difference(new AbortController().signal);
    expect(parts.flatMap(({ commands }) => commands).length).toBeGreaterThan(0);
    expect(await run.pass(31_000)).toMatchObject({ kind: 'full', ok: true, failures: [] });
    expect(elementsOf(table)).toEqual(before);
    await run.reconciler.stop();

    lose();
    const again = await running(table);
    expect(again.reports.at(-1)).toMatchObject({ ok: true, failures: [] });
    expect(elementsOf(table)).toEqual(before);
    await again.reconciler.stop();
  });
});
