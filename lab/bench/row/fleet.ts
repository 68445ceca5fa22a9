import { access, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { AdminClient } from '../../../test/apiserver/admin-client.ts';
import { kubeconfig } from '../../../test/apiserver/kubeconfig.ts';
import { RealApiServer } from '../../../test/apiserver/real-api-server.ts';
import { LongProcess } from '../../../test/bed/long-process.ts';
import { cacheOf } from '../../cluster/folders.ts';
import { parseSettings } from '../../cluster/settings.ts';
import { now } from '../api-process.ts';
import { CountingProxy } from '../counting-proxy.ts';
import { nodeObject, serviceObjects, sliceObjects } from '../large-cluster.ts';
import type { Measurements } from '../measure.ts';
import { hasNfTables } from '../nf-tables.ts';
import type { Row } from '../row.ts';
import { sizeName } from '../size.ts';

const DAEMONS = 50;
const SHAPE = { services: 1_000, endpoints: 10, dualStackEvery: 0, nodePortEvery: 0, udpEvery: 0 };
const NAMESPACES = Array.from({ length: 100 }, (_, index) => `team-${index}`);
/** Of ours: two of the cluster's objects and one of the Node. */
const WATCHES = 3;
const START_MS = 300_000;
/** More than the longest back-off. */
const RETURN_MS = 60_000;
const LOOK_MS = 250;
const MIB = 1024 * 1024;

/**
 * What each of many daemons costs one real API server: at its start, and when all return after the server was away. They are
 * dry runs in nftables mode, so that one network namespace is enough.
 */
export const fleet: Row = {
  name: 'fleet',
  onlyByName: true,
  async run(out) {
    const assets = cacheOf(parseSettings([]).kubernetes).bin;
    if (!(await hasNfTables(out))) return;
    if (!(await isBuilt(assets))) {
      out.progress('left out: make smoke-build builds the API server');
      return;
    }
    await measure(out, assets);
  },
};

async function isBuilt(assets: string): Promise<boolean> {
  const files = ['etcd', 'kube-apiserver'].map((name) => access(path.join(assets, name)));
  return (await Promise.allSettled(files)).every(({ status }) => status === 'fulfilled');
}

async function measure(out: Measurements, assets: string): Promise<void> {
  await using resources = new AsyncDisposableStack();
  const folder = await mkdtemp(path.join(tmpdir(), 'bench-fleet-'));
  resources.defer(() => rm(folder, { recursive: true }));
  const tokens = { proxier: 'system:kube-proxy' };
  const server = await RealApiServer.start({ assets, directory: folder, tokens, namespaces: NAMESPACES });
  resources.defer(() => server.stop());
  const admin = new AdminClient(server.url, server.ca);
  await fill(admin);
  const proxy = resources.use(await CountingProxy.start(Number(new URL(server.url).port)));
  const config = path.join(folder, 'kubeconfig');
  const cluster = { 'certificate-authority': server.caFile };
  const url = `https://127.0.0.1:${proxy.port}`;
  await writeFile(config, kubeconfig({ server: url, cluster, user: { token: 'proxier' } }), { mode: 0o600 });

  const own = await countsOf(admin);
  const begun = now();
  const daemons: LongProcess[] = [];
  for (let node = 0; node < DAEMONS; node++) {
    const daemon = await LongProcess.start(argvOf(node, folder, config));
    resources.use(daemon);
    daemons.push(daemon);
  }
  for (const daemon of daemons) await daemon.waitForOutput(/kernel and plan compared/, START_MS);
  const all = DAEMONS * WATCHES;
  while ((await countsOf(admin)).watches < own.watches + all) await sleep(LOOK_MS);
  out.progress(`${DAEMONS} daemons have started in ${Math.round((now() - begun) / 1_000)} s`);
  const started = await countsOf(admin);
  const name = `${DAEMONS} daemons at ${sizeName(SHAPE)}, one real API server`;
  const each = (what: string, unit: string, value: number): void =>
    void out.add({ name: `${name}: ${what} of each`, unit, values: [value / DAEMONS] });
  each('bytes from the API server at the start', 'MiB', proxy.bytes / MIB);
  each('lists at the start', 'requests', started.lists - own.lists);
  each('watches', 'watches', started.watches - own.watches);
  each('connections', 'connections', proxy.connections);

  const [bytes, connections] = [proxy.bytes, proxy.connections];
  await server.restart();
  const times = await returnsOf(admin, own.watches, all);
  const again = await countsOf(admin);
  const span = (times.at(-1) ?? NaN) - (times[0] ?? NaN);
  out.add({
    name: `${name}: from the first to the last watch that returns after its restart`,
    unit: 'ms',
    values: [span],
  });
  out.add({ name: `${name}: watches that return in the busiest second`, unit: 'watches', values: [busiest(times)] });
  // A new server counts anew.
  each('lists after the restart', 'requests', again.lists);
  each('bytes after the restart', 'MiB', (proxy.bytes - bytes) / MIB);
  each('attempts to connect', 'connections', proxy.connections - connections);
}

async function fill(admin: AdminClient): Promise<void> {
  for (let node = 0; node < DAEMONS; node++) {
    const object = nodeObject();
    await admin.apply({ ...object, metadata: { ...object.metadata, name: `node-${node}` } });
  }
  for (const object of serviceObjects(SHAPE)) {
    const { ports, selector } = object['spec'] as Record<string, unknown>;
    // The server chooses the addresses.
    await admin.apply({ ...object, spec: { ports, selector } });
  }
  for (const object of sliceObjects(SHAPE)) await admin.apply(object);
}

function argvOf(node: number, folder: string, config: string): readonly string[] {
  return [
    process.execPath,
    '--max-semi-space-size=2',
    '--max-old-space-size=512',
    '--use-openssl-ca',
    path.resolve('build/kube-ipvs-proxy.mjs'),
    '--dry-run',
    '--proxy-mode=nftables',
    '--cluster-cidr=10.64.0.0/10',
    `--hostname-override=node-${node}`,
    `--kubeconfig=${config}`,
    `--query-socket=${path.join(folder, `node-${node}.sock`)}`,
    `--metrics-bind-address=127.0.0.1:${20_000 + node}`,
    `--healthz-bind-address=127.0.0.1:${21_000 + node}`,
  ];
}

interface Counts {
  readonly lists: number;
  readonly watches: number;
}

/** Of Services, EndpointSlices and Nodes, from the server's metrics: its own are among them. */
async function countsOf(admin: AdminClient): Promise<Counts> {
  const { body } = await admin.ask('GET', '/metrics');
  const text = String(body['message']);
  const sum = (metric: string, verb: string): number => {
    const lines = [...text.matchAll(new RegExp(`^${metric}\\{(.*)\\} (\\S+)$`, 'gm'))];
    const ours = lines.filter(
      ([, labels = '']) =>
        labels.includes(`verb="${verb}"`) && /resource="(?:services|endpointslices|nodes)"/.test(labels),
    );
    return ours.reduce((total, [, , value]) => total + Number(value), 0);
  };
  return { lists: sum('apiserver_request_total', 'LIST'), watches: sum('apiserver_longrunning_requests', 'WATCH') };
}

/** By `now()`, when each of the daemons' watches was there again, as far as a look each quarter of a second shows. */
async function returnsOf(admin: AdminClient, own: number, all: number): Promise<readonly number[]> {
  const times: number[] = [];
  const end = now() + RETURN_MS;
  while (times.length < all) {
    if (now() > end) throw new Error(`${times.length} of ${all} watches have returned`);
    const { watches } = await countsOf(admin);
    for (const at = now(); times.length < watches - own;) times.push(at);
    await sleep(LOOK_MS);
  }
  return times;
}

/** The most of these times within a second. */
function busiest(times: readonly number[]): number {
  return Math.max(...times.map((from) => times.filter((time) => time >= from && time < from + 1_000).length));
}
