import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, expect, jest, test } from '@jest/globals';
import { Bed } from '../bed/bed.ts';
import type { Namespace } from '../bed/namespace.ts';
import { startDaemon } from '../support/daemon.ts';

jest.setTimeout(180_000);

let bed: Bed;
let node: Namespace;
let client: Namespace;

beforeAll(async () => {
  bed = await Bed.create({ nodes: 1, podsPerNode: 2, clients: 1 });
  node = bed.node(0);
  client = bed.client(0);
  for (const index of [0, 1]) await bed.pod(0, index).serveTcp(8080);
  await startDaemon(node, [
    '--manifests=manifests/demo',
    '--cluster-cidr=10.201.0.0/16,fd00:201::/48',
    '--service-metrics',
    '--service-metrics-real-servers',
  ]);
});

afterAll(() => bed[Symbol.asyncDispose]());

async function scrapedSeries(series: string): Promise<number> {
  const { stdout } = await node.exec(['curl', '-sS', 'http://127.0.0.1:10249/metrics']);
  const line = stdout.split('\n').find((text) => text.startsWith(`${series} `));
  return Number(line?.slice(series.length + 1) ?? NaN);
}

/** What the scrape says of the demo's web service; NaN when it says nothing. */
async function scraped(name: string): Promise<number> {
  return scrapedSeries(`kubeipvs_service_${name}{namespace="default",service="web",port_name="http",protocol="TCP"}`);
}

/** The kernel sums its counters up every two seconds. */
async function settled(name: string, expected: number): Promise<number> {
  const deadline = Date.now() + 15_000;
  for (;;) {
    const value = await scraped(name);
    if (value === expected || Date.now() > deadline) return value;
    await sleep(250);
  }
}

async function connect(address: string, port: number, times: number): Promise<void> {
  for (let i = 0; i < times; i++) expect(await client.probeTcp(address, port)).toMatchObject({ ok: true });
}

test('after n connections to a Service a scrape reports n, for each kind of address', async () => {
  expect(await scraped('connections_total')).toBe(0);
  await connect('10.202.0.10', 80, 3);
  expect(await settled('connections_total', 3)).toBe(3);
  await connect('fd00:202::a', 80, 2);
  await connect('10.200.0.10', 30_080, 1);
  await connect('10.203.0.10', 80, 1);
  expect(await settled('connections_total', 7)).toBe(7);
  // SYN, ACK, request and FIN at least, of each.
  for (const way of ['incoming', 'outgoing']) {
    const packets = await scraped(`${way}_packets_total`);
    expect(packets).toBeGreaterThanOrEqual(7 * 3);
    expect(await scraped(`${way}_bytes_total`)).toBeGreaterThanOrEqual(packets * 40);
  }
  expect(await scraped('active_connections')).toBe(0);
});

test('Service metrics equal the counters that ipvsadm prints', async () => {
  const { stdout } = await node.exec(['ipvsadm', '-Ln', '--stats', '--exact']);
  const ours = stdout.split('\n').filter((line) => /^TCP .*:(80|30080) /.test(line));
  const total = ours.reduce((sum, line) => sum + Number(line.trim().split(/\s+/)[2]), 0);
  expect(total).toBe(await scraped('connections_total'));
});

test('metrics of real servers add up to those of the Service port', async () => {
  const servers = ['10.201.0.10:8080', '10.201.0.11:8080', '[fd00:201::10]:8080', '[fd00:201::11]:8080'];
  const ofServers = async (name: string): Promise<number[]> => {
    const port = `kubeipvs_real_server_${name}{namespace="default",service="web",port_name="http",protocol="TCP"`;
    return Promise.all(servers.map((server) => scrapedSeries(`${port},real_server="${server}"}`)));
  };
  for (const name of ['connections_total', 'incoming_packets_total', 'outgoing_bytes_total', 'inactive_connections']) {
    const deadline = Date.now() + 15_000;
    // The kernel does not sum up all of them at the same moment.
    for (;;) {
      const sum = (await ofServers(name)).reduce((total, each) => total + each, 0);
      const ofPort = await scraped(name);
      if (sum === ofPort) break;
      if (Date.now() > deadline) throw new Error(`${name}: ${sum} of all real servers, ${ofPort} of the port`);
      await sleep(250);
    }
  }
  expect(await scraped('connections_total')).toBe(7);
  // Round robin: of the two connections by IPv6 each has one.
  expect((await ofServers('connections_total')).slice(2)).toEqual([1, 1]);
});

test('the sums of the node have the same connections, and the counters of ipvsadm', async () => {
  expect(await scrapedSeries('kubeipvs_node_connections_total')).toBe(await scraped('connections_total'));
  const { stdout } = await node.exec(['cat', '/proc/net/ip_vs_stats']);
  const [connections, ...counters] = (stdout.split('\n')[2] ?? '').trim().split(/\s+/);
  expect(connections).toBe('7');
  for (const [index, name] of ['incoming_packets', 'outgoing_packets', 'incoming_bytes', 'outgoing_bytes'].entries()) {
    expect(await scrapedSeries(`kubeipvs_node_${name}_total`)).toBe(Number.parseInt(counters[index] ?? '', 16));
  }
});

test('Service metrics do not decrease when another program zeroes the kernel’s counters', async () => {
  await node.exec(['ipvsadm', '-Z']);
  expect(await scraped('connections_total')).toBe(7);
  await connect('10.202.0.10', 80, 2);
  expect(await settled('connections_total', 9)).toBe(9);
});

test('with estimation stopped the counters do not change and the scrape says so; after a restart of it nothing is lost', async () => {
  const estimate = async (run: 0 | 1): Promise<void> => node.sysctl({ 'net.ipv4.vs.run_estimation': run });
  expect(await scrapedSeries('kubeipvs_estimation_enabled')).toBe(1);
  await estimate(0);
  expect(await scrapedSeries('kubeipvs_estimation_enabled')).toBe(0);
  await connect('10.202.0.10', 80, 2);
  // Longer than the estimator's two seconds.
  await sleep(3_000);
  expect(await scraped('connections_total')).toBe(9);
  await estimate(1);
  expect(await settled('connections_total', 11)).toBe(11);
});
