import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, describe, expect, jest, test } from '@jest/globals';
import type { ServiceReply, TopReply } from '../../src/explain/replies.ts';
import { clusterAddress, podAddress } from '../bed/address-plan.ts';
import type { ProbeResult } from '../bed/agent-protocol.ts';
import { Bed } from '../bed/bed.ts';
import type { LongProcess } from '../bed/long-process.ts';
import type { KeptConnection, Namespace } from '../bed/namespace.ts';
import { patient } from '../bed/patience.ts';
import { daemonArgv, querySocketOf, startDaemon } from '../support/daemon.ts';
import { PROGRAM } from '../support/program.ts';
import {
  type EndpointShape,
  ManifestDirectory,
  POD_PORT,
  SERVICE_PORT,
  type ServiceShape,
  nodeObjects,
  serviceObjects,
} from './cluster-objects.ts';

jest.setTimeout(patient(120_000));

const CONNECTIONS = 700;
const PODS = [0, 1, 2] as const;

function who(result: ProbeResult): string {
  return result.ok ? result.answeredBy : result.code;
}

function endpoint(pod: number, zone = 'a'): EndpointShape {
  return { addresses: podAddress(0, pod), node: 0, zone };
}

const ENDPOINTS = PODS.map((pod) => endpoint(pod));

/** What Services ask of userspace mode by their annotations, and how it is seen. */
describe('the choice of endpoints in userspace mode', () => {
  let bed: Bed;
  let node: Namespace;
  let client: Namespace;
  let directory: ManifestDirectory;
  let daemon: LongProcess;

  beforeAll(async () => {
    directory = await ManifestDirectory.create();
    await directory.write('nodes', nodeObjects(1));
    bed = await Bed.create({ nodes: 1, podsPerNode: 3, clients: 1 });
    [node, client] = [bed.node(0), bed.client(0)];
    for (const pod of PODS) await bed.pod(0, pod).serveTcp(POD_PORT);
    const permitted = '--service-annotations=scheduler,weights,drain-timeout,connection-limit,one-packet';
    daemon = await startDaemon(node, [permitted, `--manifests=${directory.path}`]);
  });

  afterAll(async () => {
    await bed[Symbol.asyncDispose]();
    await directory[Symbol.asyncDispose]();
  });

  /** Writes a Service, and waits until the daemon knows as many endpoints with a weight. Returns its ClusterIP. */
  async function publish(
    name: string,
    at: number,
    shape: Pick<ServiceShape, 'annotations' | 'endpoints'>,
  ): Promise<string> {
    const clusterIp = clusterAddress(at);
    await directory.write(name, serviceObjects({ name, clusterIp, ...shape }));
    const wanted = shape.endpoints.map(({ addresses }) => `${addresses.v4}:${POD_PORT}`).toSorted();
    // Each look takes two seconds.
    for (let look = 0; look < 10; look++) {
      const { rows } = await top('endpoint');
      const found = rows.filter(({ of }) => of === `default/${name}`).map(({ endpoint: server = '' }) => server);
      const ofFamily = found.filter((server) => server.startsWith('10.')).map((server) => server.replace('/TCP', ''));
      if (ofFamily.toSorted().join() === wanted.join()) return clusterIp.v4;
    }
    throw new Error(`the engine does not have ${name}:\n${daemon.output}`);
  }

  async function ask<R>(...argv: readonly string[]): Promise<R> {
    const asked = [process.execPath, PROGRAM, ...argv, '-o', 'json', `--query-socket=${querySocketOf(node)}`];
    return JSON.parse(
      (await node.exec(['sh', '-c', '"$@" || true', 'sh', ...asked], { timeoutMs: 30_000 })).stdout,
    ) as R;
  }

  function top(by: 'service' | 'endpoint'): Promise<TopReply> {
    return ask('top', `--by=${by}`, '--interval=2');
  }

  /** How often each Pod answers on new connections. */
  async function answers(address: string, count: number): Promise<Record<string, number>> {
    const request = { protocol: 'tcp', target: { address, port: SERVICE_PORT }, timeoutMs: patient(5_000) } as const;
    const counts: Record<string, number> = {};
    for (const result of await client.probeAll(Array(count).fill(request), 1))
      counts[who(result)] = (counts[who(result)] ?? 0) + 1;
    return counts;
  }

  function hold(address: string, count: number): Promise<KeptConnection[]> {
    return Promise.all(Array.from({ length: count }, () => client.hold(address, SERVICE_PORT)));
  }

  test(`weights by zone with wrr: ${CONNECTIONS} connections`, async () => {
    const address = await publish('weighted', 1, {
      annotations: { scheduler: 'wrr', weights: 'zone=a:3,zone=b:1' },
      endpoints: [endpoint(0), endpoint(1), endpoint(2, 'b')],
    });
    expect(await answers(address, CONNECTIONS)).toEqual({ 'pod-0-0': 300, 'pod-0-1': 300, 'pod-0-2': 100 });
    const { annotations, settings } = await ask<ServiceReply>('explain', 'weighted');
    expect(settings?.scheduler).toBe('wrr');
    expect(annotations?.map(({ name, inForce }) => [name, inForce])).toEqual([
      ['scheduler', true],
      ['weights', true],
    ]);
  });

  test('weights by node with wlc: all connections are held', async () => {
    const address = await publish('local', 2, {
      annotations: { scheduler: 'wlc', weights: 'node=local:2,node=other:1' },
      endpoints: [endpoint(0), { ...endpoint(1), node: 1 }],
    });
    const held = await hold(address, 9);
    const counts = Map.groupBy(held, ({ first }) => who(first));
    expect([counts.get('pod-0-0')?.length, counts.get('pod-0-1')?.length]).toEqual([6, 3]);
    await Promise.all(held.map((one) => one.close()));
  });

  test('lc: the next connection goes where one has ended', async () => {
    const address = await publish('least', 3, { annotations: { scheduler: 'lc' }, endpoints: ENDPOINTS });
    const held = await hold(address, 6);
    const freed = held.filter(({ first }) => who(first) === 'pod-0-1');
    expect(freed).toHaveLength(2);
    await Promise.all(freed.map((one) => one.close()));
    await sleep(patient(200));
    const again = await hold(address, 2);
    expect(again.map(({ first }) => who(first))).toEqual(['pod-0-1', 'pod-0-1']);
    await Promise.all([...held.filter((one) => !freed.includes(one)), ...again].map((one) => one.close()));
  });

  test('connection-limit: a full endpoint gets none until it has fewer than the second number', async () => {
    const limit = { 'connection-limit': '3/2' };
    const address = await publish('limited', 4, { annotations: limit, endpoints: ENDPOINTS.slice(0, 1) });
    const held = await hold(address, 3);
    expect(await answers(address, 2)).toEqual({ ECONNRESET: 2 });
    await held.pop()?.close();
    await sleep(patient(200));
    expect(await answers(address, 1)).toEqual({ ECONNRESET: 1 });
    await held.pop()?.close();
    await sleep(patient(200));
    expect(await answers(address, 1)).toEqual({ 'pod-0-0': 1 });
    await held.pop()?.close();
  });

  test('drain-timeout of the Service: connections to a removed endpoint end, although the node has none', async () => {
    const annotations = { 'drain-timeout': '3s' };
    const address = await publish('drained', 5, { annotations, endpoints: ENDPOINTS.slice(0, 1) });
    const [held] = await hold(address, 1);
    const begin = performance.now();
    await publish('drained', 5, { annotations, endpoints: ENDPOINTS.slice(1, 2) });
    while ((await held!.ask(1_000)).ok && performance.now() - begin < patient(20_000)) await sleep(100);
    expect(performance.now() - begin).toBeGreaterThan(2_500);
    expect(performance.now() - begin).toBeLessThan(patient(15_000));
  });

  test('top counts the connections and bytes of each Service', async () => {
    const address = await publish('busy', 6, { endpoints: ENDPOINTS.slice(0, 1) });
    const held = await hold(address, 2);
    const load = client.load('tcp', address, SERVICE_PORT, { perSecond: 20, durationMs: 8_000, timeoutMs: 3_000 });
    await sleep(1_000);
    const busy = (await top('service')).rows.find(({ of }) => of === 'default/busy');
    expect((await load).failures).toEqual({});
    expect(busy?.activeConnections).toBeGreaterThanOrEqual(2);
    expect(busy?.perSecond?.connections).toBeGreaterThan(5);
    expect(busy?.perSecond?.incomingBytes).toBeGreaterThan(0);
    expect(busy?.perSecond?.outgoingBytes).toBeGreaterThan(0);
    await Promise.all(held.map((one) => one.close()));
  });

  test('what the mode does not have is ignored with a warning, and the Service is served', async () => {
    const annotations = { scheduler: 'mh', 'one-packet': 'true' };
    const address = await publish('other', 7, { annotations, endpoints: ENDPOINTS });
    expect(await answers(address, 6)).toEqual({ 'pod-0-0': 2, 'pod-0-1': 2, 'pod-0-2': 2 });
    expect(daemon.output).toContain('rr is used: userspace mode has the schedulers rr, wrr, lc and wlc');
    expect(daemon.output).toMatch(/one-packet.*or this mode does not have it/);
  });

  test('--cleanup removes the rules that a stopped daemon has left', async () => {
    await daemon.stop(patient(20_000));
    const { v4 } = clusterAddress(1);
    expect(Object.keys(await answers(v4, 20)).toSorted()).toEqual(['pod-0-0', 'pod-0-1', 'pod-0-2']);
    await node.exec(daemonArgv(node, ['--cleanup']), { timeoutMs: 60_000 });
    expect((await node.exec(['nft', 'list', 'tables'])).stdout).not.toContain('kube-proxy');
  });
});
