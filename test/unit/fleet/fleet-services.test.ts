import { expect, test } from '@jest/globals';
import fc from 'fast-check';
import type { ServiceRow, ServicesReply } from '../../../src/explain/node/node-replies.ts';
import { ServicesTally } from '../../../src/fleet/facts/services-tally.ts';
import { RecordedCluster, type RecordedPod } from '../../support/recorded-cluster.ts';
import { runFleet } from '../../support/run-fleet.ts';

function services(node: string, rows: readonly ServiceRow[], more = 0): ServicesReply {
  return { apiVersion: 'kube-ipvs-proxy/v1', kind: 'Services', node, ok: true, verdict: '', rows, more };
}

function row(
  service: string,
  endpoints: number,
  activeConnections: number,
  problems: readonly string[] = [],
): ServiceRow {
  return { service, endpoints, activeConnections, inactiveConnections: 1, problems };
}

test('adds up connections, and has problems first, with the number of their nodes', async () => {
  const recorded = (node: string, ...rows: ServiceRow[]): [string, RecordedPod] => [
    node,
    { replies: { services: services(node, rows) } },
  ];
  using _ = new RecordedCluster(
    new Map([
      recorded('a', row('shop/web', 2, 5), row('shop/api', 1, 50)),
      recorded('b', row('shop/web', 2, 7), row('shop/api', 1, 1)),
      recorded('c', row('shop/web', 1, 1, ['10.0.0.1:80 belongs to shop/api'])),
    ]),
  );
  const { code, out } = await runFleet('services');
  expect({ code, out }).toEqual({
    code: 1,
    out: [
      '3 nodes: 2 Services, 2 with problems',
      '',
      '  service   endpoints  active  inactive  otherwise on  problems',
      '  shop/api  1          51      2         -             not known (1 node)',
      '  shop/web  2          13      3         1 node        10.0.0.1:80 belongs to shop/api (1 node)',
    ].join('\n'),
  });
});

test('of a list that is cut, what one node does not list is no problem', () => {
  const tally = new ServicesTally();
  tally.add(services('a', [row('shop/web', 1, 1)]));
  tally.add(services('b', [], 7));
  expect(tally.reply([])).toMatchObject({ ok: true, more: 7, rows: [{ service: 'shop/web', problems: [] }] });
});

test('a node without rows, or with more than a daemon lists, has not answered', () => {
  expect(() => new ServicesTally().add({})).toThrow('no rows');
  const rows = Array.from({ length: 5001 }, () => row('shop/web', 1, 1));
  expect(() => new ServicesTally().add(services('a', rows))).toThrow('its reply has more than 5000 rows');
});

test.each([{ problems: null }, { problems: [7] }, { service: {} }, { endpoints: '3' }, { activeConnections: '1' }])(
  'of a node with the row %j, nothing is added',
  (bad) => {
    const tally = new ServicesTally();
    const rows = [row('shop/web', 1, 1), { ...row('shop/api', 1, 1), ...bad } as ServiceRow];
    expect(() => tally.add(services('a', rows))).toThrow(/ is no | null/);
    expect(tally.reply([{ node: 'a', why: 'x' }])).toMatchObject({ asked: 1, answered: 0, rows: [] });
  },
);

test('the order of the answers does not matter', () => {
  const rows = fc.array(
    fc.record({
      service: fc.constantFrom('a/x', 'a/y', 'b/z'),
      endpoints: fc.nat(3),
      activeConnections: fc.nat(9),
      inactiveConnections: fc.nat(9),
      problems: fc.subarray(['one', 'two', 'three']),
    }),
    { maxLength: 3 },
  );
  const merged = (answers: readonly ServiceRow[][]) => {
    const tally = new ServicesTally();
    for (const answer of answers) tally.add(services('n', answer));
    return tally.reply([]);
  };
  fc.assert(
    fc.property(fc.array(rows, { maxLength: 6 }), (answers) => {
      expect(merged(answers.toReversed())).toEqual(merged(answers));
    }),
  );
});
