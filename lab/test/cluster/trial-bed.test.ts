import { appendFile, mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { describe, expect, test } from '@jest/globals';
import { parseResponse } from '../../cluster/trial/client/http.ts';
import { endpointsOf } from '../../cluster/trial/endpoints.ts';
import { LineFollower } from '../../cluster/trial/line-follower.ts';
import { targetsOf } from '../../cluster/trial/servers.ts';
import { groupBySettings, parseTrialSettings } from '../../cluster/trial/settings.ts';
import type { Trial } from '../../cluster/trial/trial.ts';

function trial(name: string, settings: readonly string[] = []): Trial {
  return {
    name,
    what: `${name} is done`,
    proxies: ['ours'],
    limits: { failed: 0, cut: 0 },
    settings,
    run: () => Promise.resolve(),
  };
}

describe('settings of make trial', () => {
  const trials = [trial('a'), trial('b', ['NODES=3']), trial('c')];

  test('one trial, with the settings of the cluster', () => {
    expect(parseTrialSettings(['CLUSTER=x', 'TRIAL=b'], trials)).toEqual({
      trials: [trials[1]],
      cluster: ['CLUSTER=x'],
    });
  });

  test('all trials', () => {
    expect(parseTrialSettings(['TRIAL=all'], trials).trials).toEqual(trials);
  });

  test.each([[['TRIAL=']], [[]], [['TRIAL=d']]])('%p is answered with the list', (argv) => {
    expect(() => parseTrialSettings(argv, trials)).toThrow('a: a is done\n  b: b is done');
  });

  test('trials with the same settings share a cluster', () => {
    expect(groupBySettings(trials).map((group) => group.map(({ name }) => name))).toEqual([['a', 'c'], ['b']]);
  });
});

test('the targets are the ClusterIPs and the node ports of each node', () => {
  const service = (name: string, clusterIPs: readonly string[], nodePort: number) => ({
    metadata: { name },
    spec: { clusterIPs, ports: [{ port: 80, nodePort }] },
  });
  const services = [service('web', ['10.96.0.7', 'fd00:96::7'], 30_001), service('web-local', ['10.96.0.8'], 30_002)];
  const nodes = [{ name: 'node-1', addresses: ['172.30.0.11', 'fd00:30::11'] }];
  expect(targetsOf(services, { nodes }).map(({ name, address, port }) => `${name}: ${address} ${port}`)).toEqual([
    'ClusterIP: 10.96.0.7 80',
    'ClusterIP (IPv6): fd00:96::7 80',
    'NodePort of node-1: 172.30.0.11 30001',
    'NodePort of node-1 (IPv6): fd00:30::11 30001',
    'Local NodePort of node-1: 172.30.0.11 30002',
    'Local NodePort of node-1 (IPv6): fd00:30::11 30002',
  ]);
});

test('conditions that an EndpointSlice does not have are those of a ready endpoint', () => {
  const [endpoint] = endpointsOf({ items: [{ endpoints: [{ addresses: ['10.0.0.1'], nodeName: 'node-1' }] }] });
  expect(endpoint).toMatchObject({ node: 'node-1', ready: true, serving: true, terminating: false });
});

describe('a response', () => {
  const head = 'HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n';

  test.each<[string, ReturnType<typeof parseResponse>]>([
    [head.slice(0, -1), undefined],
    [`${head}abcd`, undefined],
    [`${head}abcde`, { status: 200, body: 'abcde' }],
    [`${head.replace('200 OK', '503 no')}abcde`, { status: 503, body: 'abcde' }],
  ])('%j', (text, response) => {
    expect(parseResponse(text)).toEqual(response);
  });
});

test('a line is read when it is complete', async () => {
  const folder = await mkdtemp(path.join(tmpdir(), 'lines-'));
  try {
    const file = path.join(folder, 'lines');
    const lines = new LineFollower<{ n: number }>(file);
    expect(await lines.read()).toEqual([]);
    await appendFile(file, '{"n":1}\n{"n"');
    expect(await lines.read()).toEqual([{ n: 1 }]);
    await appendFile(file, ':2}\n');
    expect(await lines.read()).toEqual([{ n: 2 }]);
    expect(await lines.read()).toEqual([]);
  } finally {
    await rm(folder, { recursive: true });
  }
});
