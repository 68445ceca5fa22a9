import { setTimeout as sleep } from 'node:timers/promises';
import type { Kernel } from '../../../src/kernel/kernel.ts';
import { virtualServerKey } from '../../../src/state/virtual-server.ts';
import { now } from '../api-process.ts';
import { DaemonNode, type Started, until } from '../daemon-process.ts';
import { KUBE_PROXY, KubeProxy, builtKubeProxy } from '../kube-proxy.ts';
import { type ClusterShape, clusterIp } from '../large-cluster.ts';
import type { Measurements } from '../measure.ts';
import { holdsRealServer, tcpServer } from '../real-servers.ts';
import { residentMib } from '../resident.ts';
import type { Row } from '../row.ts';
import { type Size, sizeName } from '../size.ts';

const SERVICES = { quick: [100], full: [100, 1_000] } as const;
const ENDPOINTS = 10;
const CHANGES = 3;

/** After the first sync: what it used alone is given back by then. */
const REST_MS = 5_000;
/** More than the shortest time between two syncs, 1 s by default. */
const PAUSE_MS = 1_500;
/** What is measured must not wait for the processor because of the measurement: it looks for a tenth of the time. */
const PAUSES_PER_LOOK = 9;
/** Between two questions for metrics, each of which starts a process. */
const SCRAPE_MS = 2_000;
const FIRST_SYNC_LIMIT_MS = 1_800_000;
const LAST_SYNC = 'kubeproxy_sync_proxy_rules_last_timestamp_seconds';

interface Costs {
  readonly firstSync: number[];
  readonly change: number[];
  readonly memory: number[];
}

/** The real kube-proxy and ours in turn, as processes, each on a fresh node with its own API server. */
export const kubeProxy: Row = {
  name: 'kube-proxy',
  async run(out, size) {
    const program = await builtKubeProxy();
    if (program === undefined) {
      out.progress('left out: make cluster PROXY=kube-proxy builds kube-proxy');
      return;
    }
    for (const services of SERVICES[size.quick ? 'quick' : 'full']) {
      await beside(program, { ...size.mixed(1, ENDPOINTS), services }, out, size);
    }
  },
};

async function beside(program: string, shape: ClusterShape, out: Measurements, size: Size): Promise<void> {
  const ours: Costs = { firstSync: [], change: [], memory: [] };
  const theirs: Costs = { firstSync: [], change: [], memory: [] };
  for (let run = 1; run <= size.slowRuns; run++) {
    out.progress(`${sizeName(shape)}, run ${run} of ${size.slowRuns}`);
    await measureOurs(shape, ours);
    await measureTheirs(program, shape, theirs);
  }
  const at = `at ${sizeName(shape)}, beside kube-proxy`;
  const against = KUBE_PROXY;
  const { firstSync, change, memory } = theirs;
  const name = (what: string): string => `${what} ${at}`;
  out.add({
    name: name('start to the end of the first sync'),
    unit: 'ms',
    values: ours.firstSync,
    against,
    baselines: firstSync,
  });
  out.add({ name: name('one endpoint more'), unit: 'ms', values: ours.change, against, baselines: change });
  out.add({ name: name('RSS'), unit: 'MiB', values: ours.memory, against, baselines: memory });
}

async function measureOurs(shape: ClusterShape, costs: Costs): Promise<void> {
  await using node = await DaemonNode.make(shape);
  await measure(node, await node.start(), shape, costs);
}

async function measureTheirs(program: string, shape: ClusterShape, costs: Costs): Promise<void> {
  await using node = await DaemonNode.make(shape);
  await using proxy = await KubeProxy.start(program, node);
  await measure(node, proxy.started, shape, costs);
}

async function measure(node: DaemonNode, started: Started, shape: ClusterShape, costs: Costs): Promise<void> {
  const { kernel } = node.bench;
  // Services that are neither dual-stack nor UDP.
  const plain = Array.from({ length: shape.services }, (_, index) => index).filter((index) => index % 10 !== 0);
  costs.firstSync.push((await firstSyncEnd(node, started)) - started.at);
  if (!(await haveAll(kernel, plain, shape.endpoints))) throw new Error('the first sync has left something out');
  await sleep(REST_MS);
  costs.memory.push(await residentMib(started.process.pid));
  for (const service of plain.slice(0, CHANGES)) {
    await sleep(PAUSE_MS);
    const seen = until(() => pausing(() => holdsRealServer(kernel, service))).then(now);
    const given = await node.api.scale({ services: [service], endpoints: shape.endpoints + 1 });
    costs.change.push((await seen) - given);
  }
}

/** When the sync of the second IP family ended, by the proxy's own metric: milliseconds of `now()`. */
async function firstSyncEnd(node: DaemonNode, { process }: Started): Promise<number> {
  const wallClock = Date.now() - now();
  const limit = now() + FIRST_SYNC_LIMIT_MS;
  while (now() < limit) {
    await sleep(SCRAPE_MS);
    if (process.exit !== undefined) throw new Error(`it has ended: ${process.output}`);
    // Until it listens, nothing answers.
    const metrics = await node.metrics().catch(() => new Map<string, number>());
    const ends = ['IPv4', 'IPv6'].map((family) => metrics.get(`${LAST_SYNC}{ip_family="${family}"}`) ?? 0);
    if (ends.every((end) => end > 0)) return Math.max(...ends) * 1_000 - wallClock;
  }
  throw new Error(`no first sync within ${FIRST_SYNC_LIMIT_MS} ms: ${process.output}`);
}

async function haveAll(kernel: Kernel, services: readonly number[], endpoints: number): Promise<boolean> {
  const ids = services.map((service) => tcpServer(clusterIp(service, 4), 80));
  const found = await kernel.getRealServers(ids);
  return ids.every((id) => found.get(virtualServerKey(id))?.length === endpoints);
}

/** A look that found nothing is followed by a pause. */
async function pausing(look: () => Promise<boolean>): Promise<boolean> {
  const start = now();
  if (await look()) return true;
  await sleep(PAUSES_PER_LOOK * (now() - start));
  return false;
}
