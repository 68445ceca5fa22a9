import { setTimeout as sleep } from 'node:timers/promises';
import { now } from '../api-process.ts';
import type { BenchMode } from '../bench-node.ts';
import { DaemonNode, type Started, until } from '../daemon-process.ts';
import { endpointMapView } from '../endpoint-maps.ts';
import { type EndpointView, virtualServerView } from '../endpoint-view.ts';
import { iptablesChainView } from '../iptables-chains.ts';
import { COMPARED_VERSION, builtKubeProxy, kubeProxyName } from '../../../test/support/kube-proxy.ts';
import { KubeProxy } from '../kube-proxy.ts';
import type { ClusterShape } from '../large-cluster.ts';
import { type Measurements, type Target, ratioAtMost, valueAtMost } from '../measure.ts';
import { hasNfTables } from '../nf-tables.ts';
import { NftChanges } from '../nft-changes.ts';
import { processorMs } from '../processor-time.ts';
import { residentOf } from '../resident.ts';
import type { Row } from '../row.ts';
import { type Size, sizeName } from '../size.ts';

interface Comparison {
  readonly mode: BenchMode;
  readonly targets: Partial<Record<keyof Costs, Target>>;
}

const IDLE_TARGET = valueAtMost(100, 'at most 0.1 s');

const IPVS: Comparison = {
  mode: 'ipvs',
  targets: {
    firstSync: ratioAtMost(1 / 50, 'at least 50 times faster'),
    change: ratioAtMost(1 / 200, 'at least 200 times faster'),
    firstSyncProcessor: ratioAtMost(1 / 50, 'at most a fiftieth'),
    idle: ratioAtMost(1 / 25, 'at most a twenty-fifth'),
    memory: ratioAtMost(1, 'no more'),
  },
};

const NFTABLES: Comparison = {
  mode: 'nftables',
  targets: {
    firstSync: valueAtMost(3_000, 'at most 3 s'),
    change: ratioAtMost(1 / 200, 'at least 200 times faster'),
    memory: ratioAtMost(1 / 3, 'at most a third'),
    idle: IDLE_TARGET,
  },
};

const IPTABLES: Comparison = {
  mode: 'iptables',
  targets: {
    firstSync: ratioAtMost(1, 'no slower'),
    change: ratioAtMost(1 / 5, 'at least 5 times faster'),
    memory: ratioAtMost(1, 'no more'),
    idle: IDLE_TARGET,
  },
};

const [SERVICES, ENDPOINTS] = [1_000, 10];
const CHANGES = 3;

/** After the first sync: what it used alone is given back by then. */
const REST_MS = 5_000;
/** Long after the first full check, which reads what the first sync has written. */
const UNTIL_IDLE_MS = 40_000;
const IDLE_MS = 60_000;
/** More than the shortest time between two syncs, 1 s by default. */
const PAUSE_MS = 1_500;
/** What is measured must not wait for the processor because of the measurement: it looks for a tenth of the time. */
const PAUSES_PER_LOOK = 9;
/** Between two questions for metrics. */
const SCRAPE_MS = 1_000;
const FIRST_SYNC_LIMIT_MS = 1_800_000;
const LAST_SYNC = 'kubeproxy_sync_proxy_rules_last_timestamp_seconds';

interface Costs {
  readonly firstSync: number[];
  readonly firstSyncProcessor: number[];
  readonly change: number[];
  readonly memory: number[];
  readonly anonymous: number[];
  readonly idle: number[];
}

function noCosts(): Costs {
  return { firstSync: [], firstSyncProcessor: [], change: [], memory: [], anonymous: [], idle: [] };
}

/** The real kube-proxy and ours in turn, as processes, each on a fresh node with its own API server. */
export const kubeProxy: Row = {
  name: 'kube-proxy',
  run: (out, size) => compare(IPVS, out, size),
};

/** The same in nftables mode. */
export const kubeProxyNftables: Row = {
  name: 'kube-proxy-nftables',
  async run(out, size) {
    if (await hasNfTables(out)) await compare(NFTABLES, out, size);
  },
};

/** The same in iptables mode, with the nf_tables variant. */
export const kubeProxyIptables: Row = {
  name: 'kube-proxy-iptables',
  async run(out, size) {
    if (await hasNfTables(out)) await compare(IPTABLES, out, size);
  },
};

async function compare({ mode, targets }: Comparison, out: Measurements, size: Size): Promise<void> {
  const program = await builtKubeProxy(COMPARED_VERSION);
  if (program === undefined) {
    out.progress('left out: make matrix PROXY=kube-proxy builds kube-proxy');
    return;
  }
  const shape = size.mixed(SERVICES, ENDPOINTS);
  const ours = noCosts();
  const theirs = noCosts();
  for (let run = 1; run <= size.slowRuns; run++) {
    out.progress(`${sizeName(shape)}, run ${run} of ${size.slowRuns}`);
    await measureOurs(mode, shape, ours);
    await measureTheirs(mode, program, shape, theirs);
  }
  const add = (what: string, cost: keyof Costs, unit: string): void => {
    const target = targets[cost];
    out.add({
      name: `${what} at ${sizeName(shape)}, beside kube-proxy in ${mode} mode`,
      unit,
      values: ours[cost],
      against: kubeProxyName(mode),
      baselines: theirs[cost],
      ...(target && { target }),
    });
  };
  add('start to the end of the first sync', 'firstSync', 'ms');
  add('processor time to the end of the first sync', 'firstSyncProcessor', 'ms');
  add('one endpoint more', 'change', 'ms');
  add('RSS', 'memory', 'MiB');
  add('anonymous memory', 'anonymous', 'MiB');
  add('processor time in an idle minute', 'idle', 'ms');
}

async function measureOurs(mode: BenchMode, shape: ClusterShape, costs: Costs): Promise<void> {
  await using node = await DaemonNode.make(shape, mode);
  await measure(node, await node.start(), viewOf(node), shape, costs);
}

async function measureTheirs(mode: BenchMode, program: string, shape: ClusterShape, costs: Costs): Promise<void> {
  await using node = await DaemonNode.make(shape, mode);
  await using proxy = await KubeProxy.start(program, node);
  const view = mode === 'nftables' ? endpointMapView(node.bench) : viewOf(node);
  await measure(node, proxy.started, view, shape, costs);
}

function viewOf({ bench }: DaemonNode): EndpointView {
  return bench.kernel.mode === 'iptables' ? iptablesChainView(bench) : virtualServerView(bench.kernel);
}

async function measure(
  node: DaemonNode,
  started: Started,
  view: EndpointView,
  shape: ClusterShape,
  costs: Costs,
): Promise<void> {
  // Services that are neither dual-stack nor UDP.
  const plain = Array.from({ length: shape.services }, (_, index) => index).filter((index) => index % 10 !== 0);
  costs.firstSync.push((await firstSyncEnd(node, started)) - started.at);
  costs.firstSyncProcessor.push(await processorMs(started.process.pid));
  if (!(await view.haveAll(plain, shape.endpoints))) throw new Error('the first sync has left something out');
  await sleep(REST_MS);
  const { all, anonymous } = await residentOf(started.process.pid);
  costs.memory.push(all);
  costs.anonymous.push(anonymous);
  using changes = node.bench.kernel.mode !== 'ipvs' ? new NftChanges(node.bench.path) : undefined;
  for (const service of plain.slice(0, CHANGES)) {
    await sleep(PAUSE_MS);
    const look = (): Promise<boolean> => view.hasGrown(service);
    const seen = changes?.until(look) ?? until(() => pausing(look)).then(now);
    const given = await node.api.scale({ services: [service], endpoints: shape.endpoints + 1 });
    costs.change.push((await seen) - given);
  }
  await sleep(UNTIL_IDLE_MS);
  const before = await processorMs(started.process.pid);
  await sleep(IDLE_MS);
  costs.idle.push((await processorMs(started.process.pid)) - before);
}

/** When the sync of the second IP family ended, by the proxy's own metric: milliseconds of `now()`. */
async function firstSyncEnd(node: DaemonNode, { process }: Started): Promise<number> {
  const wallClock = Date.now() - now();
  const limit = now() + FIRST_SYNC_LIMIT_MS;
  while (now() < limit) {
    await sleep(SCRAPE_MS);
    if (process.exit !== undefined) throw new Error(`it has ended: ${process.output}`);
    const metrics = await node.metrics();
    const ends = ['IPv4', 'IPv6'].map((family) => metrics.get(`${LAST_SYNC}{ip_family="${family}"}`) ?? 0);
    if (ends.every((end) => end > 0)) return Math.max(...ends) * 1_000 - wallClock;
  }
  throw new Error(`no first sync within ${FIRST_SYNC_LIMIT_MS} ms: ${process.output}`);
}

/** A look that found nothing is followed by a pause. */
async function pausing(look: () => Promise<boolean>): Promise<boolean> {
  const start = now();
  if (await look()) return true;
  await sleep(PAUSES_PER_LOOK * (now() - start));
  return false;
}
