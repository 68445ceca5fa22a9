import { describe, expect, test } from '@jest/globals';
import fc from 'fast-check';
import type { DifferenceReply, EndpointReply, ServiceReply, TopReply } from '../../../src/explain/replies.ts';
import { differenceFacts, mergeDifference } from '../../../src/fleet/facts/merge-difference.ts';
import { mergeService } from '../../../src/fleet/facts/merge-service.ts';
import { mergeTop, topFacts } from '../../../src/fleet/facts/merge-top.ts';
import { serviceFacts } from '../../../src/fleet/facts/service-facts.ts';
import type { FleetServiceReply } from '../../../src/fleet/fleet-replies.ts';
import { RecordedCluster, type RecordedPod } from '../../support/recorded-cluster.ts';
import { runFleet } from '../../support/run-fleet.ts';

const SERVED = 'shop/web is served on this node: 2 of 2 endpoints used at 2 addresses, and the kernel is as planned';

function endpoint(at: string, use: EndpointReply['use'] = 'all', why?: string): EndpointReply {
  return { slice: 'web-1', at, use, ...(why === undefined ? {} : { why }) };
}

const BOTH = [endpoint('10.244.0.1:80'), endpoint('10.244.1.1:80')];

function service(
  node: string,
  endpoints: readonly EndpointReply[] = BOTH,
  changes: Partial<ServiceReply> = {},
  commands: readonly string[] = [],
): ServiceReply {
  const state = commands.length === 0 ? 'as planned' : 'differs';
  return {
    apiVersion: 'kube-ipvs-proxy/v1',
    kind: 'Service',
    node,
    ok: true,
    verdict: SERVED,
    service: 'shop/web',
    settings: {
      scheduler: 'lc',
      flags: [],
      internalTrafficPolicy: 'Cluster',
      externalTrafficPolicy: 'Cluster',
      affinitySeconds: 0,
    },
    ports: [
      {
        name: '',
        protocol: 'TCP',
        port: 80,
        addresses: [
          { use: 'ClusterIP', at: '10.96.0.1:80', endpoints: 2, state, commands },
          { use: 'NodePort', at: `192.168.0.${node.slice(-1)}:30080`, endpoints: 2, state: 'as planned', commands: [] },
        ],
        endpoints,
        counters: [],
        notes: [],
      },
    ],
    sets: [],
    refused: [],
    notes: [],
    ...changes,
  };
}

function differingOf(...replies: readonly ServiceReply[]): readonly string[] {
  const facts = replies.map((reply) => serviceFacts(reply.node, reply));
  return mergeService('shop/web', facts, []).differing.flatMap(({ node, differences }) =>
    differences.map((difference) => `${node} ${difference}`),
  );
}

describe('fleet explain', () => {
  test('says the verdict once, and names the odd ones', async () => {
    const lacking = service(
      'node-3',
      BOTH,
      { ok: false, verdict: 'shop/web is not as it should be on this node: the kernel differs' },
      ['ipvsadm -A -t 10.96.0.1:80 -s lc'],
    );
    const zone = [endpoint('10.244.0.1:80', 'none', 'for another zone by its hints (b)'), endpoint('10.244.1.1:80')];
    const recorded = (reply: object | string, status = 0): RecordedPod => ({
      replies: { explain: reply },
      statuses: { explain: status },
    });
    using _ = new RecordedCluster(
      new Map([
        ...['node-0', 'node-1', 'node-2', 'node-6'].map((node): [string, RecordedPod] => [
          node,
          recorded(service(node)),
        ]),
        ['node-3', recorded(lacking, 1)],
        ['node-4', recorded(service('node-4', zone))],
        ['node-5', recorded(service('node-5', zone))],
        ['node-7', recorded('no JSON')],
      ]),
    );
    const { code, out } = await runFleet('explain', 'web', '-n', 'shop', '--all-nodes');
    expect(code).toBe(1);
    expect(out).toBe(
      [
        '8 nodes: 1 does not answer, 3 differ from the others or are not as wanted, 4 alike; it is not as it',
        'should be on 1 node',
        '',
        '6 of 7 say: shop/web is served on this node: 2 of 2 endpoints used at 2 addresses, and the kernel is',
        'as planned',
        '',
        'differ:',
        '  node-3:',
        '      shop/web is not as it should be on this node: the kernel differs',
        '      the kernel lacks: ipvsadm -A -t 10.96.0.1:80 -s lc',
        '  node-4, node-5:',
        '      endpoints of 80/TCP: without 10.244.0.1:80 (for another zone by its hints (b))',
        '',
        'do not answer:',
        '  node-7  what it prints is no reply to this question',
        '',
        'what the nodes have:',
        '  externalTrafficPolicy  Cluster (7)',
        '  internalTrafficPolicy  Cluster (7)',
        '  scheduler              lc (7)',
        '  session affinity       0 s (7)',
      ].join('\n'),
    );
  });

  test('endpoints of one node only, as with policy Local, are no fault', () => {
    const facts = ['a', 'b', 'c'].map((node) =>
      serviceFacts(node, service(node, node === 'b' ? [endpoint('10.244.0.1:80')] : [])),
    );
    const reply = mergeService('shop/web', facts, []);
    expect(reply.ok).toBe(true);
    expect(reply.differing).toEqual([{ node: 'b', differences: ['endpoints of 80/TCP: also 10.244.0.1:80'] }]);
  });

  const others = ['node-1', 'node-2', 'node-3'].map((node) => service(node));
  const set = { does: 'a client, or a network of clients, that the source ranges allow', count: 1, commands: [] };
  test.each([
    ['a source range', { sets: [{ ...set, set: 'S', first: ['10.0.0.0/8'] }] }, 'source ranges: also S 10.0.0.0/8'],
    ['a note', { notes: ['x belongs to shop/api'] }, 'notes: also x belongs to shop/api'],
    ['a refusal', { refused: [{ command: 'ipvsadm -A', why: 'ENOENT', attempts: 2 }] }, 'refused: ipvsadm -A: ENOENT'],
    ['a command of the node', { nodeCommands: ['sysctl -w a=1'] }, 'the kernel lacks: sysctl -w a=1'],
    ['drift', { repairs: [{ at: 'T', command: 'ip addr add' }] }, 'repaired T: ip addr add'],
  ])('%s of one node', (_what, changes: Partial<ServiceReply>, text) => {
    expect(differingOf(service('node-0', BOTH, changes), ...others)).toEqual([`node-0 ${text}`]);
  });

  test('what only some clients reach is lacking for the others', () => {
    const partly = [endpoint('10.244.0.1:80', 'internal', 'not on this node'), endpoint('10.244.1.1:80')];
    expect(differingOf(service('node-0', partly), ...others)).toEqual([
      'node-0 endpoints of 80/TCP: without 10.244.0.1:80 (not on this node)',
      'node-0 endpoints of 80/TCP: also 10.244.0.1:80 at the cluster IP only',
    ]);
  });

  test('a Service that is wrong everywhere is said once', () => {
    const wrong = { ok: false, verdict: 'shop/web does not answer on this node: no endpoint is ready' };
    const facts = ['a', 'b'].map((node) => serviceFacts(node, service(node, [], wrong)));
    expect(mergeService('shop/web', facts, [])).toMatchObject({
      ok: false,
      wrong: 2,
      usual: { verdict: wrong.verdict, nodes: 2 },
      differing: [],
    });
  });

  test.each([[[]], [['10.96.0.1:80']], [['a', 'b']]])('explain %j is no question', async (args: string[]) => {
    expect(await runFleet('explain', ...args)).toMatchObject({
      code: 2,
      err: expect.stringMatching(/needs one Service/),
    });
  });

  test('the order of the answers does not matter', () => {
    const uses = fc.array(fc.constantFrom<EndpointReply['use']>('all', 'internal', 'none'), { maxLength: 3 });
    const answers = fc.array(fc.record({ uses, ok: fc.boolean(), verdict: fc.constantFrom('x', 'y') }), {
      maxLength: 7,
    });
    fc.assert(
      fc.property(answers, fc.infiniteStream(fc.nat()), (given, random) => {
        const facts = given.map(({ uses: own, ...rest }, at) =>
          serviceFacts(
            `node-${at}`,
            service(
              `node-${at}`,
              own.map((use, port) => endpoint(`10.0.0.1:${port}`, use)),
              rest,
            ),
          ),
        );
        const ranks = new Map(facts.map((each) => [each, random.next().value as number]));
        const shuffled = facts.toSorted((a, b) => (ranks.get(a) ?? 0) - (ranks.get(b) ?? 0));
        const whole: FleetServiceReply = mergeService('shop/web', facts, []);
        expect(mergeService('shop/web', shuffled, [])).toEqual(whole);
      }),
    );
  });
});

describe('fleet diff', () => {
  const difference = (node: string, operations: DifferenceReply['operations'], more = 0): DifferenceReply => ({
    apiVersion: 'kube-ipvs-proxy/v1',
    kind: 'Difference',
    node,
    ok: operations.length === 0,
    verdict: '',
    syncing: false,
    operations,
    more,
    notes: [],
  });

  test('names the nodes whose kernel differs, and what is lacking', async () => {
    const lacking = difference('b', [{ do: 'add-virtual-server', command: 'ipvsadm -A', service: 'shop/web' }], 4);
    using _ = new RecordedCluster(
      new Map<string, RecordedPod>([
        ['a', { replies: { diff: difference('a', []) } }],
        ['b', { replies: { diff: lacking }, statuses: { diff: 1 } }],
      ]),
    );
    const { code, out } = await runFleet('diff');
    expect(code).toBe(1);
    expect(out).toBe(
      '2 nodes: 1 differs from the others or is not as wanted, 1 alike\n\ndiffer:\n  b:\n      shop/web: ipvsadm -A\n      and 4 more operations',
    );
  });

  test('a known difference of a dry run is none', () => {
    const known = difference('a', [{ do: 'x', command: 'y', known: 'node-ports' as never }]);
    expect(mergeDifference([differenceFacts('a', known)], []).ok).toBe(true);
  });
});

describe('fleet top', () => {
  const rates = { incomingPackets: 0, outgoingPackets: 0, incomingBytes: 0, outgoingBytes: 0 };
  const top = (node: string, rows: Readonly<Record<string, number>>): TopReply => ({
    apiVersion: 'kube-ipvs-proxy/v1',
    kind: 'Top',
    node,
    ok: true,
    verdict: '',
    by: 'service',
    seconds: 4,
    rows: Object.entries(rows).map(([of, connections]) => ({
      of,
      activeConnections: 2,
      inactiveConnections: 1,
      perSecond: { ...rates, connections },
    })),
    more: 0,
  });

  test('adds up the traffic of all nodes', async () => {
    using _ = new RecordedCluster(
      new Map<string, RecordedPod>([
        ['a', { replies: { top: top('a', { 'shop/web': 1, 'shop/api': 4 }) } }],
        ['b', { replies: { top: top('b', { 'shop/web': 5 }) } }],
      ]),
    );
    const { code, out } = await runFleet('top', '-o', 'json');
    expect({ code, reply: JSON.parse(out) as unknown }).toMatchObject({
      code: 0,
      reply: {
        verdict: '2 nodes: 10.0 new connections a second to 2 Services',
        rows: [
          { of: 'shop/web', activeConnections: 4, perSecond: { connections: 6 }, nodes: 2, busiest: 'b' },
          { of: 'shop/api', activeConnections: 2, perSecond: { connections: 4 }, nodes: 1, busiest: 'a' },
        ],
      },
    });
    expect((await runFleet('top')).out).toContain('shop/web');
  });

  test('a node whose numbers are texts has not answered, and the others are added up', async () => {
    const [bad] = top('b', { x: 1 }).rows;
    using _ = new RecordedCluster(
      new Map<string, RecordedPod>([
        ['a', { replies: { top: top('a', { x: 1 }) } }],
        ['b', { replies: { top: { ...top('b', {}), rows: [{ ...bad, perSecond: { connections: '7' } }] } } }],
        ['c', { replies: { top: { ...top('c', {}), rows: [{ ...bad, of: 7 }] } } }],
      ]),
    );
    const { out } = await runFleet('top', '-o', 'json');
    expect(JSON.parse(out)).toMatchObject({
      answered: 1,
      silent: [
        { node: 'b', why: 'connections is no number in its reply' },
        { node: 'c', why: 'of is no text in its reply' },
      ],
    });
  });

  test('the order of the answers does not matter', () => {
    const facts = ['a', 'b', 'c'].map((node, at) => topFacts(node, top(node, { x: 0.1 * at, y: 0.3 })));
    const byName = (a: { of: string }, b: { of: string }): number => (a.of < b.of ? -1 : 1);
    expect(mergeTop('service', byName, facts.toReversed(), [])).toEqual(mergeTop('service', byName, facts, []));
  });
});
