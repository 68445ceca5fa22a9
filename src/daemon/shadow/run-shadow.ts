import { MODES } from '../../base/proxy-mode.ts';
import type { ProxyConfig } from '../../config/proxy-config.ts';
import type { IpFamily } from '../../base/ip.ts';
import type { KernelReader } from '../../kernel/kernel.ts';
import type { SourceEvent } from '../../kube/objects/source.ts';
import { Cluster } from '../../model/cluster.ts';
import type { Log } from '../../observe/log/log.ts';
import { ProxyHealth } from '../../observe/health.ts';
import { ProxyMetrics } from '../../observe/proxy-metrics.ts';
import type { LogControl } from '../../observe/log/winston-log.ts';
import { SYSTEM_CLOCK as clock } from '../../reconcile/timing/clock.ts';
import { Shadow, type ShadowOptions } from '../../reconcile/shadow.ts';
import { loadMode } from '../modes/load-mode.ts';
import { History } from '../questions/history.ts';
import { openQuerySocket } from '../questions/open-query-socket.ts';
import { followSource } from '../run/follow-source.ts';
import { identityOf, logStart } from '../run/identity.ts';
import { NodeChanges } from '../run/node-changes.ts';
import { awaitOwnNode } from '../run/own-node.ts';
import { startServers } from '../run/servers.ts';
import { needsSync, noteEvent } from '../run/source-events.ts';
import { runUntilStopped } from '../run/until-stopped.ts';
import { watchConfig } from '../run/watch-config.ts';
import { type UsableFamilies, usableFamilies, wantedSettings } from '../startup/kernel-setup.ts';
import { nodeNameOf } from '../startup/node-identity.ts';
import { openSource } from '../startup/open-source.ts';
import { requireRights } from '../startup/rights.ts';
import { ShadowPublisher } from './shadow-publisher.ts';

/**
 * Runs until SIGTERM, SIGINT or a configuration change. Resolves to the exit code. Writes nothing but the socket of
 * --query-socket: its kernel only reads, and it sends no Events.
 */
export function runShadow(config: ProxyConfig): Promise<number> {
  return runUntilStopped(config, start, 'stopped: this dry run has changed nothing');
}

async function start(
  config: ProxyConfig,
  control: LogControl,
  stop: AbortController,
  started: AsyncDisposableStack,
): Promise<void> {
  const { log } = control;
  const nodeName = nodeNameOf(config);
  const metrics = new ProxyMetrics(config.featureGates, [], config.mode);
  const opened = openSource(config, nodeName, metrics, log);
  started.defer(() => opened.close());
  requireRights({ rules: MODES[config.mode].rules === 'iptables' });

  const kernel = await openKernel(config, metrics, log, started);
  // In ipvs mode, the first request that needs IPVS and privileges.
  await kernel.getIpvsTimeouts();
  const usable = await readableFamilies(kernel, config, log);
  const { families } = usable;
  const sentence = 'kube-ipvs-proxy is starting as a shadow (--dry-run): it changes nothing';
  logStart(sentence, { node: nodeName, mode: config.mode }, usable, opened.origin, log);
  const cluster = new Cluster(nodeName, config.serviceAnnotations);
  const health = new ProxyHealth(2 * config.syncPeriod, nodeName);
  const history = new History(clock, config.mode);
  const publisher = new ShadowPublisher({ metrics, health, clock, log: log.child('shadow') });
  let shadow: Shadow | undefined;
  const nodeChanges = new NodeChanges({ config, log, end: () => stop.abort(1) });
  await listen({ config, control, metrics, health }, started);
  const identity = identityOf(nodeName, usable, config, opened);
  const questions = {
    ...identity,
    config,
    metrics,
    kernel,
    health,
    watches: metrics.watchStates,
    cluster,
    history,
    clock,
    log,
  };
  const found = { reconciler: () => shadow, shadow: () => publisher.last };
  started.defer(await openQuerySocket(config.querySocket, { ...questions, ...found }));
  watchConfig(config, stop, started, log);

  const onApplied = (event: SourceEvent): void => {
    noteEvent(event, cluster, metrics, health, nodeChanges);
    history.eventApplied();
    if (needsSync(event, cluster)) shadow?.clusterChanged();
  };
  followSource(opened.source, cluster, onApplied, Promise.resolve(), started);
  const plan = await awaitOwnNode({ config, nodeName, families, cluster, nodeChanges, log }, stop.signal);
  if (plan === undefined) return;
  const nodeSettings = await wantedSettings(kernel, config);
  const onChanged = history.changed.bind(history);
  shadow = startShadow({ config, kernel, cluster, plan, nodeSettings, onChanged, observer: publisher, log }, started);
  health.started(families, clock.now());
  shadow.clusterChanged();
}

async function openKernel(
  { mode }: ProxyConfig,
  metrics: ProxyMetrics,
  log: Log,
  started: AsyncDisposableStack,
): Promise<KernelReader> {
  const kernel = (await loadMode(mode)).createReader({
    log: log.child('kernel'),
    onProgram: (program) => metrics.processStarted(program),
  });
  started.defer(() => kernel.close());
  return kernel;
}

/** Returns the families whose rules can be read. */
function readableFamilies(kernel: KernelReader, config: ProxyConfig, log: Log): Promise<UsableFamilies> {
  const probe = {
    getSysctl: (key: string) => kernel.getSysctl(key),
    probeRules: (family: IpFamily) => kernel.findRuleVariant(family),
  };
  return usableFamilies(probe, config, log);
}

interface Listening {
  readonly config: ProxyConfig;
  readonly control: LogControl;
  readonly metrics: ProxyMetrics;
  readonly health: ProxyHealth;
}

/** Opens the ports for probes and scrapes. */
async function listen({ config, control, metrics, health }: Listening, started: AsyncDisposableStack): Promise<void> {
  metrics.lag.start();
  started.defer(() => metrics.lag.stop());
  const servers = await startServers(config, health, metrics, control, () => undefined);
  for (const server of servers) started.defer(() => server.close());
}

type Shadowed = Pick<
  ShadowOptions,
  'kernel' | 'cluster' | 'plan' | 'nodeSettings' | 'onChanged' | 'observer' | 'log'
> & {
  readonly config: ProxyConfig;
};

function startShadow({ config, log, ...parts }: Shadowed, started: AsyncDisposableStack): Shadow {
  const shadow = new Shadow({
    ...parts,
    nodeIpOverride: config.nodeIpOverride,
    excludeCidrs: config.excludeCidrs,
    syncPeriodMs: config.syncPeriod,
    clock,
    log: log.child('shadow'),
  });
  started.defer(() => shadow.stop());
  const stopWatch = parts.kernel.watchNode(
    () => shadow.nodeAddressesChanged(),
    () => shadow.kernelStateLost(),
  );
  started.defer(stopWatch);
  return shadow;
}
