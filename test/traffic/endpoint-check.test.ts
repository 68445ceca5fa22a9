import path from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, beforeEach, expect, jest, test } from '@jest/globals';
import { clusterAddress, podAddress, podGateway } from '../bed/address-plan.ts';
import { Bed } from '../bed/bed.ts';
import type { LongProcess } from '../bed/long-process.ts';
import type { KeptConnection, Namespace } from '../bed/namespace.ts';
import { patient } from '../bed/patience.ts';
import { querySocketOf, startDaemon } from '../support/daemon.ts';
import { ManifestDirectory, POD_PORT, SERVICE_PORT, nodeObjects, serviceObjects } from './cluster-objects.ts';

jest.setTimeout(patient(300_000));

const VIP = clusterAddress(1).v4;
const AFFINE_VIP = clusterAddress(2).v4;
const BUNDLE = path.resolve('build/kube-ipvs-proxy.mjs');
const PODS = [0, 1, 2];
/**
 * The kernel sums up its counters every 2 s, so a whole period without answers ends up to 4 s after the event; a connect of
 * 1 s follows. The rest is for a slow machine.
 */
const LAST_FAILURE_MS = 8_000;
/** A silent endpoint is asked every 2 s at first, and every 30 s at last. */
const BACK_MS = 35_000;

let bed: Bed;
let node: Namespace;
/** A Pod: the node does not masquerade its connections. */
let client: Namespace;
let directory: ManifestDirectory;
let daemon: LongProcess;
const servers: Awaited<ReturnType<Namespace['serveTcp']>>[] = [];

beforeAll(async () => {
  bed = await Bed.create({ nodes: 1, podsPerNode: 4, clients: 1 });
  [node, client] = [bed.node(0), bed.pod(0, 3)];
  for (const pod of PODS) servers.push(await bed.pod(0, pod).serveTcp(POD_PORT));
  directory = await ManifestDirectory.create();
  await directory.write('nodes', nodeObjects(1));
  const shape = {
    annotations: { 'endpoint-check': 'true' },
    endpoints: PODS.map((pod) => ({ addresses: podAddress(0, pod), node: 0 })),
  };
  await directory.write('web', serviceObjects({ ...shape, name: 'web', clusterIp: clusterAddress(1) }));
  await directory.write(
    'affine',
    serviceObjects({ ...shape, name: 'affine', clusterIp: clusterAddress(2), affinitySeconds: 600 }),
  );
  daemon = await start();
});

afterAll(async () => {
  await bed[Symbol.asyncDispose]();
  await directory[Symbol.asyncDispose]();
});

beforeEach(async () => {
  for (const pod of PODS) await hear(pod);
  await until('all endpoints are used', async () => (await weights()) === '1 1 1', 60_000);
});

function start(check = 'act'): Promise<LongProcess> {
  return startDaemon(node, [
    `--manifests=${directory.path}`,
    '--cluster-cidr=10.201.0.0/16,fd00:201::/48',
    '--ipvs-scheduler=rr',
    '--ipvs-min-sync-period=0s',
    `--ipvs-endpoint-check=${check}`,
  ]);
}

async function until(what: string, holds: () => Promise<boolean>, ms: number): Promise<void> {
  const deadline = performance.now() + patient(ms);
  while (!(await holds())) {
    if (performance.now() > deadline) throw new Error(`not within ${ms} ms: ${what}\n${daemon.output}`);
    await sleep(100);
  }
}

/** The weights of the endpoints, in their order. */
async function weights(vip = VIP): Promise<string> {
  const { stdout } = await node.exec(['ipvsadm', '-Sn']);
  const lines = stdout.split('\n').filter((line) => line.includes(`-a -t ${vip}:${SERVICE_PORT} `));
  return lines
    .toSorted()
    .map((line) => / -w (\d+)/.exec(line)?.[1])
    .join(' ');
}

/** Drops what comes to a Pod, of all or from one address. */
async function drop(pod: number, ...match: string[]): Promise<void> {
  await bed.pod(0, pod).exec(['iptables', '-w', '-I', 'INPUT', ...match, '-j', 'DROP']);
}

/** Drops what comes to a Pod and what it sends, as if its node were dead. */
async function silence(pod: number): Promise<void> {
  await bed.pod(0, pod).exec(['iptables', '-w', '-I', 'OUTPUT', '-j', 'DROP']);
  await drop(pod);
}

async function hear(pod: number): Promise<void> {
  for (const chain of ['INPUT', 'OUTPUT']) await bed.pod(0, pod).exec(['iptables', '-w', '-F', chain]);
}

/** Connects ten times a second. Returns when the last connection that failed began, by performance.now(). */
async function connectFor(
  ms: number,
): Promise<{ readonly last: number; readonly failed: number; readonly all: number }> {
  const began = performance.now();
  let [last, failed, all] = [0, 0, 0];
  const probes: Promise<void>[] = [];
  while (performance.now() - began < ms) {
    const at = performance.now();
    all += 1;
    probes.push(
      client.probeTcp(VIP, SERVICE_PORT, { timeoutMs: 2_000 }).then((result) => {
        if (result.ok) return;
        failed += 1;
        last = Math.max(last, at);
      }),
    );
    await sleep(100);
  }
  await Promise.all(probes);
  return { last, failed, all };
}

async function ask(...argv: string[]): Promise<string> {
  return (await node.exec([process.execPath, BUNDLE, ...argv, `--query-socket=${querySocketOf(node)}`])).stdout;
}

async function scraped(series: string): Promise<number> {
  const { stdout } = await node.exec(['curl', '-sS', 'http://127.0.0.1:10249/metrics']);
  const line = stdout.split('\n').find((text) => text.startsWith(`${series} `));
  return Number(line?.slice(series.length + 1) ?? NaN);
}

const TRUSTED = 'kubeipvs_checked_endpoints{state="trusted"}';
const SILENT = 'kubeipvs_checked_endpoints{state="silent"}';
const REFUSED = 'kubeipvs_endpoint_connects_total{result="refused"}';

/** Connects until so many endpoints have answered this node, which judges only those. */
async function untilKnown(count: number, vip = VIP): Promise<void> {
  const known = async (): Promise<boolean> => {
    await client.probeTcp(vip, SERVICE_PORT, { timeoutMs: 500 });
    return (await scraped(TRUSTED)) >= count;
  };
  await until(`${count} endpoints have answered this node`, known, 20_000);
}

/** A connection to each Pod. */
async function holdEach(): Promise<ReadonlyMap<string, KeptConnection>> {
  const held = new Map<string, KeptConnection>();
  for (let i = 0; i < 20 && held.size < PODS.length; i++) {
    const connection = await client.hold(VIP, SERVICE_PORT);
    if (connection.first.ok && !held.has(connection.first.answeredBy))
      held.set(connection.first.answeredBy, connection);
    else await connection.close();
  }
  return held;
}

test('new connections leave a silent endpoint, open ones stay, and it comes back when it answers', async () => {
  await untilKnown(3);
  const held = await holdEach();
  expect(held.size).toBe(3);
  expect(await connectFor(2_000)).toMatchObject({ failed: 0 });
  const steady = connectFor(11_000);
  await silence(1);
  const event = performance.now();
  const { last, failed, all } = await steady;
  const lastAfter = Math.round(last - event);
  process.stdout.write(`last failure ${lastAfter} ms after the event: ${failed} of ${all} connections failed\n`);
  expect(failed).toBeGreaterThan(0);
  expect(lastAfter).toBeLessThan(patient(LAST_FAILURE_MS));
  expect(await weights()).toBe('1 0 1');
  expect(await held.get('pod-0-0')?.ask()).toMatchObject({ ok: true });

  expect(await ask('diff')).toMatch(/^the kernel is as planned/);
  expect(await ask('explain', 'web')).toMatch(/10\.201\.0\.11:8080 +weight 0, .*used: has not answered for \d+ s/);
  expect(await ask('status')).toMatch(
    /endpoints that do not answer \(1\):\n +default\/web: 10\.201\.0\.11:8080 has not/,
  );
  expect(await scraped(SILENT)).toBe(1);
  expect(daemon.output).toMatch(
    /endpoint 10\.201\.0\.11:8080 does not answer: \d+ packets of \d+ new connections? to it/,
  );

  await hear(1);
  await until('the endpoint is used again', async () => (await weights()) === '1 1 1', BACK_MS);
  expect(await held.get('pod-0-1')?.ask()).toMatchObject({ ok: true, answeredBy: 'pod-0-1' });
  expect(await connectFor(1_000)).toMatchObject({ failed: 0 });
  for (const connection of held.values()) await connection.close();
});

test('a client with session affinity gets another endpoint; a restart keeps the silent one without new connections until it answers', async () => {
  await untilKnown(4, AFFINE_VIP);
  const answer = await client.probeTcp(AFFINE_VIP, SERVICE_PORT);
  if (!answer.ok) throw new Error(answer.code);
  const pod = Number(answer.answeredBy.at(-1));
  await silence(pod);
  const again = (): Promise<boolean> =>
    client.probeTcp(AFFINE_VIP, SERVICE_PORT, { timeoutMs: 500 }).then(({ ok }) => ok);
  await until('the client is served again', again, 15_000);
  const without = PODS.map((each) => (each === pod ? 0 : 1)).join(' ');
  expect(await weights(AFFINE_VIP)).toBe(without);

  await daemon.stop();
  daemon = await start();
  expect(await weights(AFFINE_VIP)).toBe(without);
  await hear(pod);
  await until('the endpoint is used again', async () => (await weights(AFFINE_VIP)) === '1 1 1', BACK_MS);
});

test('packets of an open connection alone tell that an endpoint is silent; the connection goes on when it answers', async () => {
  await untilKnown(PODS.length);
  const each = await holdEach();
  const held = each.get('pod-0-1');
  await silence(1);
  const answer = held?.ask(60_000);
  await until('it is silent', async () => (await weights()) === '1 0 1', 15_000);
  await hear(1);
  expect(await answer).toMatchObject({ ok: true, answeredBy: 'pod-0-1' });
  await until('the endpoint is used again', async () => (await weights()) === '1 1 1', BACK_MS);
  for (const connection of each.values()) await connection.close();
});

/**
 * With 0, the kernel forwards a connection from the same port as an earlier one to the endpoint of that one, and counts no new
 * connection. Once that endpoint has weight 0, it schedules such a connection anew with either (since Linux 5.17).
 */
test.each(['0', '1'])(
  'with net.ipv4.vs.conn_reuse_mode %s, a client that uses one port tells that its endpoint is silent, and gets another one',
  async (mode) => {
    const sysctl = 'net.ipv4.vs.conn_reuse_mode';
    const before = (await node.exec(['sysctl', '-n', sysctl])).stdout.trim();
    await node.exec(['sysctl', '-qw', `${sysctl}=${mode}`]);
    try {
      await untilKnown(PODS.length);
      const sourcePort = 40_000 + Number(mode);
      const reused = () => client.probeTcp(VIP, SERVICE_PORT, { sourcePort, timeoutMs: 300 });
      // With a reset, the port is free at once.
      const first = await client.probeTcp(VIP, SERVICE_PORT, { sourcePort, reset: true });
      if (!first.ok) throw new Error(first.code);
      const pod = Number(first.answeredBy.at(-1));
      await silence(pod);
      const without = PODS.map((each) => (each === pod ? 0 : 1)).join(' ');
      const isSilent = async (): Promise<boolean> => {
        await reused();
        return (await weights()) === without;
      };
      await until('it is silent', isSilent, 15_000);
      await until('the client is served again', async () => (await reused()).ok, 10_000);
      expect(await connectFor(1_000)).toMatchObject({ failed: 0 });
    } finally {
      await node.exec(['sysctl', '-qw', `${sysctl}=${before}`]);
    }
  },
);

test('an endpoint is silent although IPVS counts ICMP errors about it as packets from it', async () => {
  await untilKnown(PODS.length + 1);
  const pod = bed.pod(0, 1);
  await pod.exec(['ip', 'link', 'set', 'eth0', 'arp', 'off']);
  await node.exec(['ip', 'neigh', 'flush', 'all']);
  const steady = connectFor(12_000);
  await until('it is silent', async () => (await weights()) === '1 0 1', 15_000);
  await steady;
  expect(await connectFor(5_000)).toMatchObject({ failed: 0 });
  expect(await weights()).toBe('1 0 1');
  expect(daemon.output).toMatch(/endpoint 10\.201\.0\.11:8080 does not answer/);

  await pod.exec(['ip', 'link', 'set', 'eth0', 'arp', 'on']);
  await until('the endpoint is used again', async () => (await weights()) === '1 1 1', BACK_MS);
});

test('an endpoint that only this node may not reach, and one that refuses, are used; if most are silent, all are', async () => {
  await drop(0, '-s', podGateway(0).v4);
  expect(await node.probeTcp(podAddress(0, 0).v4, POD_PORT, { timeoutMs: 500 })).toMatchObject({ ok: false });
  expect(await connectFor(6_000)).toMatchObject({ failed: 0 });
  expect([await scraped(SILENT), await weights()]).toEqual([0, '1 1 1']);

  // Its clients get nothing, and this node is refused.
  await servers[2]?.close();
  await drop(2, '-s', client.addresses.v4);
  await until('it refuses', async () => (await connectFor(1_000)).all > 0 && (await scraped(REFUSED)) > 0, 15_000);
  expect(await weights()).toBe('1 1 1');

  for (const pod of [1, 2]) await silence(pod);
  await until('two are silent', async () => (await connectFor(1_000)).all > 0 && (await scraped(SILENT)) === 2, 20_000);
  await sleep(500);
  expect(await weights()).toBe('1 1 1');
});
