import { describe, expect, test } from '@jest/globals';
import type { ConnectReply } from '../../../src/explain/node/node-replies.ts';
import { checkFacts, mergeCheck } from '../../../src/fleet/check/merge-check.ts';
import { serviceTargets, targetsByNode } from '../../../src/fleet/check/service-targets.ts';
import { RecordedCluster, type RecordedPod } from '../../support/recorded-cluster.ts';
import { runFleet } from '../../support/run-fleet.ts';

const SERVICE = {
  spec: {
    clusterIP: '10.96.0.1',
    clusterIPs: ['10.96.0.1', 'fd00::1'],
    externalIPs: ['203.0.113.1'],
    externalTrafficPolicy: 'Cluster',
    ports: [
      { protocol: 'TCP', port: 80, nodePort: 30080 },
      { protocol: 'UDP', port: 53, nodePort: 30053 },
    ],
  },
  status: { loadBalancer: { ingress: [{ ip: '203.0.113.2' }, { ip: '203.0.113.3', ipMode: 'Proxy' }] } },
};

function connected(outcomes: Readonly<Record<string, string | undefined>>): ConnectReply {
  const connections = Object.entries(outcomes).map(([to, why]) =>
    why === undefined ? { to, ok: true, milliseconds: 1 } : { to, ok: false, why },
  );
  return { apiVersion: 'kube-ipvs-proxy/v1', kind: 'Connect', node: 'host', ok: true, verdict: '', connections };
}

const SHARED = {
  '10.96.0.1:80': undefined,
  '[fd00::1]:80': undefined,
  '203.0.113.1:80': undefined,
  '203.0.113.2:80': undefined,
};

describe('what is tried', () => {
  test('each path to a TCP port; a node port of the own node and of the next', () => {
    const pods = ['1', '2', '3'].map((last) => ({ node: `n${last}`, pod: `p${last}`, address: `192.168.0.${last}` }));
    const targets = serviceTargets(SERVICE);
    expect(targets.notes).toEqual(['ports of other protocols than TCP are not checked']);
    const byNode = targetsByNode(pods, targets);
    expect(byNode.get('n3')?.map(({ path, to }) => `${path} ${to}`)).toEqual([
      'ClusterIP 10.96.0.1:80',
      'ClusterIP [fd00::1]:80',
      'external 203.0.113.1:80',
      'external 203.0.113.2:80',
      'NodePort 192.168.0.3:30080',
      'NodePort 192.168.0.1:30080',
    ]);
  });

  test('with policy Local, only the cluster IP: other nodes need not answer', () => {
    const spec = { ...SERVICE.spec, externalTrafficPolicy: 'Local' };
    const { shared, nodePorts, notes } = serviceTargets({ ...SERVICE, spec });
    expect({ paths: shared.map(({ path }) => path), nodePorts }).toEqual({
      paths: ['ClusterIP', 'ClusterIP'],
      nodePorts: [],
    });
    expect(notes[0]).toMatch(/^node ports and external addresses are not checked: /);
  });

  test('22 node ports at two nodes are within what a node tries, and a note says what is left out', () => {
    const ports = Array.from({ length: 22 }, (_, at) => ({ protocol: 'TCP', port: 1000 + at, nodePort: 30_000 + at }));
    const pods = ['1', '2'].map((last) => ({ node: `n${last}`, pod: `p${last}`, address: `192.168.0.${last}` }));
    const targets = serviceTargets({ spec: { clusterIP: '10.96.0.1', ports } });
    expect(targetsByNode(pods, targets).get('n1')?.length).toBe(64);
    expect(targets.notes).toEqual(['1 node port is not checked: a node tries 64 targets at most']);
  });

  test('addresses that are left out have a note', () => {
    const externalIPs = Array.from({ length: 50 }, (_, at) => `203.0.113.${at}`);
    const { shared, notes } = serviceTargets({
      spec: { clusterIP: '10.96.0.1', externalIPs, ports: [{ port: 80, nodePort: 30_080 }] },
    });
    expect({ tried: shared.length, notes }).toEqual({
      tried: 40,
      notes: ['11 addresses are not checked: a node tries 64 targets at most'],
    });
  });

  test('with internalTrafficPolicy Local, not the cluster IP', () => {
    const spec = { ...SERVICE.spec, internalTrafficPolicy: 'Local' };
    const { shared, nodePorts, notes } = serviceTargets({ ...SERVICE, spec });
    expect({ paths: shared.map(({ path }) => path), nodePorts }).toEqual({
      paths: ['external', 'external'],
      nodePorts: [30_080],
    });
    expect(notes[0]).toMatch(/^cluster IPs are not checked: /);
  });

  test.each([[{}], [{ spec: { clusterIP: 'None', ports: [{ port: 80 }] } }], [{ spec: { clusterIP: '10.96.0.1' } }]])(
    'nothing of %j',
    (service) => {
      expect(serviceTargets(service).shared).toEqual([]);
    },
  );
});

describe('fleet check', () => {
  const own = { '192.168.0.0:30080': undefined, '192.168.0.1:30080': undefined };
  const pod = (outcomes: Readonly<Record<string, string | undefined>>, status = 0): RecordedPod => ({
    replies: { connect: connected({ ...SHARED, ...own, ...outcomes }) },
    statuses: { connect: status },
  });

  test('names each node from which a path fails', async () => {
    using cluster = new RecordedCluster(
      new Map([
        ['a', pod({})],
        ['b', pod({ '192.168.0.0:30080': 'no answer within 3 s' }, 1)],
      ]),
    );
    cluster.writeService(SERVICE);
    const { code, out } = await runFleet('check', 'shop/web');
    expect({ code, out }).toEqual({
      code: 1,
      out: [
        '2 nodes: 12 connections to shop/web tried, 1 fail',
        'note: ports of other protocols than TCP are not checked',
        '',
        'fail:',
        '  from b  NodePort  192.168.0.0:30080  no answer within 3 s',
      ].join('\n'),
    });
  });

  test('is as wanted if all answer', async () => {
    using cluster = new RecordedCluster(
      new Map([
        ['a', pod({})],
        ['b', pod({})],
      ]),
    );
    cluster.writeService(SERVICE);
    expect(await runFleet('check')).toMatchObject({
      code: 0,
      out: expect.stringContaining('2 nodes: 12 connections to default/kubernetes tried, all succeed'),
    });
  });

  test('a Service without a cluster IP is no question', async () => {
    using cluster = new RecordedCluster(new Map([['a', pod({})]]));
    cluster.writeService({ spec: { clusterIP: 'None', ports: [{ port: 80 }] } });
    expect(await runFleet('check', 'web')).toEqual({
      code: 2,
      out: '',
      err: 'kube-ipvs-proxy: of default/web nothing can be checked: it has no cluster IP with a TCP port',
    });
  });

  test('a Service of which all is local is no question', async () => {
    using cluster = new RecordedCluster(new Map([['a', pod({})]]));
    cluster.writeService({ spec: { clusterIP: '10.96.0.1', internalTrafficPolicy: 'Local', ports: [{ port: 80 }] } });
    expect(await runFleet('check', 'web')).toMatchObject({
      code: 2,
      err: expect.stringContaining('of default/web nothing can be checked: cluster IPs are not checked: with'),
    });
  });

  test('a node that does not say what was tried has not answered', () => {
    expect(() => checkFacts('a', [{ path: 'ClusterIP', to: '10.96.0.1:80' }], connected({}))).toThrow(
      /does not mention/,
    );
  });

  test('a node whose reason is no text has not answered', () => {
    const reply = { connections: [{ to: '10.96.0.1:80', ok: false, why: 7 as never }] };
    expect(() => checkFacts('a', [{ path: 'ClusterIP', to: '10.96.0.1:80' }], reply)).toThrow(
      'why is no text in its reply',
    );
  });

  test('the order of the answers does not matter', () => {
    const facts = ['b', 'a', 'c'].map((node) =>
      checkFacts(node, [{ path: 'ClusterIP', to: '10.96.0.1:80' }], connected({ '10.96.0.1:80': 'refused' })),
    );
    expect(mergeCheck('s', [], facts.toReversed(), [])).toEqual(mergeCheck('s', [], facts, []));
  });
});
