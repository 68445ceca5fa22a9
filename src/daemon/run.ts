import { writeFileSync } from 'node:fs';
import { setImmediate } from 'node:timers/promises';
import { watchConfigFile } from '../config/config-file-watch.ts';
import type { ProxyConfig } from '../config/proxy-config.ts';
import { createCommandRunner } from '../kernel/command-runner.ts';
import { Leftovers } from '../kernel/leftovers.ts';
import { createLinuxKernel } from '../kernel/linux-kernel.ts';
import type { Kernel } from '../kernel/kernel.ts';
import { Cluster } from '../model/cluster.ts';
import type { IpFamily } from '../net/ip.ts';
import type { Log } from '../observe/log.ts';
import { ProxyHealth } from '../observe/health.ts';
import { ProxyMetrics } from '../observe/proxy-metrics.ts';
import { ServiceHealthServers } from '../observe/service-health-servers.ts';
import type { LogControl } from '../observe/winston-log.ts';
import type { PlanConfig } from '../plan/plan-config.ts';
import { SYSTEM_CLOCK } from '../reconcile/clock.ts';
import { Reconciler } from '../reconcile/reconciler.ts';
import { PHASES } from '../state/transaction.ts';
import { checkAgainstNode } from './cross-checks.ts';
import { DaemonEvents } from './daemon-events.ts';
import { estimationRuns } from './estimation.ts';
import { EventFeed } from './event-feed.ts';
import { reportFailure } from './failure.ts';
import { setUpKernel, usableFamilies } from './kernel-setup.ts';
import { NodeChanges } from './node-changes.ts';
import { nodeNameOf, planConfigOf, waitForNode } from './node-identity.ts';
import { openLog } from './open-log.ts';
import { openSource } from './open-source.ts';
import { handleLeftovers } from './other-modes.ts';
import { requireRights } from './rights.ts';
import { startServers } from './servers.ts';
import { ServiceMetrics } from './service-metrics.ts';
import { noteEvent } from './source-events.ts';
import { StopSignal } from './stop-signal.ts';
import { SyncPublisher } from './sync-publisher.ts';

/** Runs until SIGTERM, SIGINT or a changed configuration; resolves with the exit code. The kernel keeps what it was given. */
export async function runDaemon(config: ProxyConfig): Promise<number> {
  const control = openLog(config);
  const stop = new StopSignal();
  // What was started last ends first.
  const started = new AsyncDisposableStack();
  let serving = false;
  try {
    return await reportFailure(control.log, async () => {
      await setImmediate();
      await start(config, control, stop, started);
      serving = true;
      return stop.wait();
    });
  } finally {
    await started.disposeAsync();
    stop.dispose();
    // Not after a failed start: its one line says all there is to say.
    if (serving) control.log.info('stopped: virtual servers, sets and rules stay in force');
  }
}

async function start(
  config: ProxyConfig,
  control: LogControl,
  stop: StopSignal,
  started: AsyncDisposableStack,
): Promise<void> {
  const { log } = control;
  const clock = SYSTEM_CLOCK;
  const nodeName = nodeNameOf(config);
  setOomScore(config.oomScoreAdj, log);

  // Whatever is wrong with credentials, rights, ports or the kernel is said before anything lasting is written.
  const metrics = new ProxyMetrics([4, 6], config.featureGates, PHASES);
  const opened = openSource(config, nodeName, metrics, log);
  started.defer(() => opened.close());
  const events = new DaemonEvents(nodeName, opened.eventSink, clock, log.child('events'));
  started.defer(() => events.close());
  requireRights({ rules: true });

  const cluster = new Cluster(nodeName);
  const health = new ProxyHealth(2 * config.syncPeriod);
  let reconciler: Reconciler | undefined;
  let nodeChanges: NodeChanges | undefined;
  const programmed = Promise.withResolvers<void>();
  const follow = (): void => {
    const feed = new EventFeed(cluster, (event) => {
      noteEvent(event, cluster, metrics, health, nodeChanges);
      reconciler?.clusterChanged();
    });
    started.defer(() => feed.stop());
    opened.source.start((event) => feed.take(event), programmed.promise);
    started.defer(() => opened.source.stop());
  };
  // A server takes its time, in which the kernel can be looked at. A directory is there, and its troubles are worth telling only then.
  if (opened.remote) follow();

  const kernel = createLinuxKernel({
    log: log.child('kernel'),
    onProgram: (program) => metrics.processStarted(program),
    onRestoreFailure: (family) => metrics.iptablesRestoreFailed(family),
  });
  started.defer(() => kernel.close());
  await kernel.probeScheduler(config.scheduler);
  const families = await usableFamilies(kernel, config, log);
  metrics.start();
  started.defer(() => metrics.stop());
  const onRefused = events.serverRefused.bind(events);
  const servers = await startServers(config, health, metrics, control, clock, onRefused);
  for (const server of servers) started.defer(() => server.close());

  await setUpKernel(kernel, config, log);
  watchConfig(config, stop, started, log);

  if (!opened.remote) follow();
  events.started();
  await waitForNode(cluster, config, clock, stop.signal, log);
  if (stop.signal.aborted) return;
  checkAgainstNode(config, families, cluster.node(), log);
  const planConfig = planConfigOf(config, nodeName, families, cluster);
  // Not sooner: what is wrong with our Node has been said by now, and kube-ipvs0 would stay.
  await kernel.prepare();
  nodeChanges = new NodeChanges({ config, atStart: cluster.node(), log, end: () => stop.stop(1) });

  const parts = { config, control, kernel, metrics, health, cluster, families, planConfig, events };
  reconciler = startReconciler(parts, started);
  programmed.resolve(reconciler.programmedAhead());
}

interface Parts {
  readonly config: ProxyConfig;
  readonly control: LogControl;
  readonly kernel: Kernel;
  readonly metrics: ProxyMetrics;
  readonly health: ProxyHealth;
  readonly cluster: Cluster;
  readonly families: readonly IpFamily[];
  readonly planConfig: PlanConfig;
  readonly events: DaemonEvents;
}

function startReconciler(parts: Parts, started: AsyncDisposableStack): Reconciler {
  const { config, control, kernel, metrics, health, cluster, families, planConfig, events } = parts;
  const clock = SYSTEM_CLOCK;
  const log = control.log.child('sync');
  const serviceHealth = new ServiceHealthServers({
    proxyHealthy: () => health.healthy(clock.now()),
    onBindFailure: ({ namespace, name, port }, address, { message }) => {
      log.error(`the health check of service ${namespace}/${name} cannot listen: ${message}`, { address, port });
      events.serviceHealthRefused(namespace, name, `the health check cannot listen on port ${port}: ${message}`);
    },
  });
  started.defer(() => serviceHealth.close());
  const onWarning = events.serviceWarning.bind(events);
  const leftovers = new Leftovers(createCommandRunner({ onStart: (program) => metrics.processStarted(program) }));
  const observer = new SyncPublisher({
    planConfig,
    families,
    kernel,
    cluster,
    plan: () => reconciler.plan,
    metrics,
    health,
    serviceHealth,
    now: () => clock.now(),
    log,
    onServing: () => void handleLeftovers(leftovers, log),
  });
  const reconciler = new Reconciler({
    kernel,
    cluster,
    plan: planConfig,
    nodeIpOverride: config.nodeIpOverride,
    excludeCidrs: config.excludeCidrs,
    syncPeriodMs: config.syncPeriod,
    minSyncPeriodMs: config.minSyncPeriod,
    drainTimeoutMs: config.drainTimeout,
    clock,
    log,
    observer,
    onWarning,
  });
  started.defer(() => reconciler.stop());
  const services = new ServiceMetrics({
    kernel,
    cluster,
    plan: () => reconciler.plan,
    limit: config.serviceMetricsLimit,
    realServers: config.serviceMetricsRealServers,
    log: control.log,
  });
  metrics.observeServices(() => services.read());
  metrics.observeEstimation(() => estimationRuns(kernel));
  for (const family of families) health.started(family, clock.now());
  started.defer(kernel.watchNodeAddresses(() => reconciler.nodeAddressesChanged()));
  reconciler.clusterChanged();
  return reconciler;
}

function watchConfig(config: ProxyConfig, stop: StopSignal, started: AsyncDisposableStack, log: Log): void {
  if (config.configFile === undefined) return;
  const watch = watchConfigFile({
    ...config.configFile,
    onChange: () => {
      log.error('the configuration file was changed: ending, to be started again with the new content');
      stop.stop(1);
    },
    onError: (error) => log.warn(`the configuration file's folder cannot be watched, polling it: ${String(error)}`),
  });
  started.defer(() => watch.close());
}

function setOomScore(score: number, log: Log): void {
  try {
    writeFileSync('/proc/self/oom_score_adj', String(score));
  } catch (error) {
    log.debug(2, `the OOM score could not be set: ${String(error)}`, { score });
  }
}
