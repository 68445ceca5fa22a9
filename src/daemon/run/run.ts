import { MODES } from '../../base/proxy-mode.ts';
import { writeFileSync } from 'node:fs';
import type { ProxyConfig } from '../../config/proxy-config.ts';
import { VERSION } from '../../config/version.ts';
import type { Kernel } from '../../kernel/kernel.ts';
import type { SourceEvent } from '../../kube/objects/source.ts';
import { Cluster } from '../../model/cluster.ts';
import { errorText } from '../../base/text/error-text.ts';
import { type IpFamily, familyOf } from '../../base/ip.ts';
import type { Log } from '../../observe/log/log.ts';
import { ProxyHealth } from '../../observe/health.ts';
import { ProxyMetrics } from '../../observe/proxy-metrics.ts';
import { ServiceHealthServers } from '../../observe/service-health-servers.ts';
import type { LogControl } from '../../observe/log/winston-log.ts';
import type { PlanConfig } from '../../plan/plan-config.ts';
import { SYSTEM_CLOCK as clock } from '../../reconcile/timing/clock.ts';
import type { NodeSettings } from '../../reconcile/node/node-settings.ts';
import { Reconciler } from '../../reconcile/reconciler.ts';
import type { VirtualServerId } from '../../state/virtual-server.ts';
import { PHASES } from '../../state/transaction.ts';
import { type DaemonLock, holdDaemonLock } from '../startup/daemon-lock.ts';
import { History } from '../questions/history.ts';
import { openQuerySocket } from '../questions/open-query-socket.ts';
import { DaemonEvents } from './daemon-events.ts';
import { estimationRuns } from '../startup/estimation.ts';
import { setUpKernel, usableFamilies } from '../startup/kernel-setup.ts';
import { followSource } from './follow-source.ts';
import { identityOf, logStart } from './identity.ts';
import { Engines } from './engines.ts';
import { LocalNodePorts, engineLimitsOf } from './local-node-ports.ts';
import { NodeChanges } from './node-changes.ts';
import { nodeNameOf } from '../startup/node-identity.ts';
import { awaitOwnNode } from './own-node.ts';
import { type OpenedSource, openSource } from '../startup/open-source.ts';
import { loadMode } from '../modes/load-mode.ts';
import type { Mode, ModeParts } from '../modes/mode.ts';
import { KnownLeftovers } from '../modes/known-leftovers.ts';
import { requireRights } from '../startup/rights.ts';
import { startServers } from './servers.ts';
import { observeTraffic } from '../traffic/observe-traffic.ts';
import { needsSync, noteEvent } from './source-events.ts';
import { SyncPublisher, type SyncPublisherOptions } from './sync-publisher.ts';
import { runUntilStopped } from './until-stopped.ts';
import type { EndpointChecker } from '../endpoint-check/endpoint-checker.ts';
import { watchConfig } from './watch-config.ts';

/** Runs until SIGTERM, SIGINT or a configuration change. Resolves to the exit code. Leaves kernel objects in place. */
export function runDaemon(config: ProxyConfig): Promise<number> {
  return runUntilStopped(
    config,
    start,
    MODES[config.mode].outlivesDaemon
      ? 'stopped: virtual servers, sets and rules remain in the kernel, so Services keep working'
      : 'stopped: all connections through Services are broken, and new ones are refused until a daemon runs again',
  );
}

async function start(
  config: ProxyConfig,
  control: LogControl,
  stop: AbortController,
  started: AsyncDisposableStack,
): Promise<void> {
  const { log } = control;
  const nodeName = nodeNameOf(config);
  setOomScore(config.oomScoreAdj, log);

  // Check credentials, privileges, ports and the kernel before writing anything that outlives this process.
  const metrics = new ProxyMetrics(config.featureGates, PHASES, config.mode);
  const opened = openSource(config, nodeName, metrics, log);
  started.defer(() => opened.close());
  const events = openEvents(config, nodeName, opened, log);
  started.defer(() => events.close());
  requireRights({ rules: MODES[config.mode].rules === 'iptables', podNamespaces: config.prepareDirectPods });
  const mode = await loadMode(config.mode);
  const lock = await holdDaemonLock({ node: nodeName, mode: config.mode, version: VERSION }, log, config);
  started.defer(lock.release);

  const cluster = new Cluster(nodeName, config.serviceAnnotations);
  const health = new ProxyHealth(2 * config.syncPeriod, nodeName);
  const history = new History(clock, config.mode);
  let reconciler: Reconciler | undefined;
  let endpointCheck: EndpointChecker | undefined;
  const nodeChanges = new NodeChanges({ config, log, end: () => stop.abort(1) });
  const programmed = Promise.withResolvers<void>();
  const onApplied = (event: SourceEvent): void => {
    noteEvent(event, cluster, metrics, health, nodeChanges);
    history.eventApplied();
    if (needsSync(event, cluster)) reconciler?.clusterChanged();
  };
  const follow = (): void => followSource(opened.source, cluster, onApplied, programmed.promise, started);
  // List from the API server during the kernel checks. A directory of manifests is read after them: that takes no time.
  const remote = 'apiServer' in opened.origin;
  if (remote) follow();

  const engines = new Engines();
  const kernel = openKernel(mode, config, metrics, engines, log, started);
  await kernel.probeScheduler(config.scheduler);
  const usable = await usableFamilies(kernel, config, log);
  logStart('kube-ipvs-proxy is starting', { node: nodeName, mode: config.mode }, usable, opened.origin, log);
  const knownLeftovers = new KnownLeftovers((isAnyLeft) => metrics.setOtherModesLeft(isAnyLeft));
  const common = { config, mode, control, kernel, metrics, health, cluster, events, history, knownLeftovers, lock };
  const localNodePorts = openLocalNodePorts(config, metrics, engines, log, started);
  const parts = { ...common, engines, localNodePorts, podPreparation: await podPreparation(common, started) };
  await listen(parts, started);
  const asked = { ...parts, clock, log, ...identityOf(nodeName, usable, config, opened) };
  const late = { reconciler: () => reconciler, silentEndpoints: () => endpointCheck?.silent() };
  const questions = { ...asked, ...late, watches: metrics.watchStates };
  started.defer(await openQuerySocket(config.querySocket, questions));
  const nodeSettings = await setUpKernel(kernel, config, log, (note) => events.sysReadOnly(note));
  watchConfig(config, stop, started, log);

  if (!remote) follow();
  events.started();
  const planConfig = await awaitOwnNode({ ...parts, ...usable, nodeName, nodeChanges, log }, stop.signal);
  if (planConfig === undefined) return;
  // Call this after the checks of our Node: it creates kube-ipvs0, which would remain if a check failed.
  await kernel.prepare();

  endpointCheck = await checkEndpoints(parts, () => reconciler, started);
  reconciler = startReconciler({ ...parts, ...usable, planConfig, nodeSettings, endpointCheck }, started);
  reconciler.clusterChanged();
  programmed.resolve(reconciler.bootstrapped());
}

function openKernel(
  mode: Mode,
  config: ProxyConfig,
  metrics: ProxyMetrics,
  engines: Engines,
  log: Log,
  started: AsyncDisposableStack,
): Kernel {
  const kernel = mode.createKernel({
    log: log.child('kernel'),
    onProgram: (program) => metrics.processStarted(program),
    onRestoreFailure: (family) => metrics.iptablesRestoreFailed(family),
    modeObserver: metrics,
    engineLimits: engineLimitsOf(config),
    onEngine: (read) => engines.add(read),
  });
  started.defer(() => kernel.close());
  return kernel;
}

/** Returns undefined if endpoints are not checked: then nothing of it is loaded or read. */
async function checkEndpoints(
  { config, kernel, metrics, events, control }: Pick<Parts, 'config' | 'kernel' | 'metrics' | 'events' | 'control'>,
  reconciler: () => Reconciler | undefined,
  started: AsyncDisposableStack,
): Promise<EndpointChecker | undefined> {
  const { endpointCheck: wanted } = config;
  if (wanted === 'off') return undefined;
  const { openEndpointCheck } = await import('../endpoint-check/open-endpoint-check.ts');
  const checker = await openEndpointCheck({
    wanted,
    kernel,
    metrics,
    clock,
    log: control.log.child('endpoint-check'),
    ownerOf: (key) => reconciler()?.plan.ownerOf(key),
    onJudged: (services) => reconciler()?.endpointsJudged(services),
    onSilent: events.endpointsSilent.bind(events),
  });
  started.defer(() => checker.stop());
  return checker;
}

function openEvents(
  { serviceEvents }: ProxyConfig,
  nodeName: string,
  { eventSink }: OpenedSource,
  log: Log,
): DaemonEvents {
  return new DaemonEvents({ nodeName, sink: eventSink, ofServices: serviceEvents, clock, log: log.child('events') });
}

function openLocalNodePorts(
  config: ProxyConfig,
  metrics: ProxyMetrics,
  engines: Engines,
  log: Log,
  started: AsyncDisposableStack,
): LocalNodePorts {
  const limits = engineLimitsOf(config);
  const onRefused = ({ address }: VirtualServerId): void => metrics.localListenerRefused(familyOf(address));
  const localNodePorts = new LocalNodePorts({ limits, log: log.child('localhost'), onRefused });
  started.defer(() => localNodePorts.close());
  const readLocal = (): ReturnType<LocalNodePorts['report']> => localNodePorts.report();
  engines.add(readLocal);
  metrics.observeEngines(() => engines.report(), readLocal);
  return localNodePorts;
}

/** Opens the ports for probes and scrapes. */
async function listen(
  { config, health, metrics, control, events }: Pick<Parts, 'config' | 'health' | 'metrics' | 'control' | 'events'>,
  started: AsyncDisposableStack,
): Promise<void> {
  metrics.lag.start();
  started.defer(() => metrics.lag.stop());
  const servers = await startServers(config, health, metrics, control, events.serverRefused.bind(events));
  for (const server of servers) started.defer(() => server.close());
}

interface Parts {
  readonly config: ProxyConfig;
  readonly mode: Mode;
  readonly control: LogControl;
  readonly kernel: Kernel;
  readonly metrics: ProxyMetrics;
  readonly health: ProxyHealth;
  readonly cluster: Cluster;
  readonly families: readonly IpFamily[];
  readonly iptables: string | undefined;
  readonly planConfig: PlanConfig;
  readonly events: DaemonEvents;
  readonly history: History;
  readonly nodeSettings: NodeSettings;
  readonly endpointCheck: EndpointChecker | undefined;
  readonly knownLeftovers: KnownLeftovers;
  readonly lock: DaemonLock;
  readonly localNodePorts: LocalNodePorts;
  readonly podPreparation: Pick<SyncPublisherOptions, 'preparePods'>;
}

function startReconciler(parts: Parts, started: AsyncDisposableStack): Reconciler {
  const { config, mode, control, kernel, metrics, health, cluster, families, planConfig, events } = parts;
  const log = control.log.child('sync');
  const serviceHealth = openServiceHealth(parts, log, started);
  const modeParts = modePartsOf(parts, log);
  const observer = new SyncPublisher({
    families,
    kernel,
    cluster,
    plan: () => reconciler.plan,
    metrics,
    health,
    history: parts.history,
    serviceHealth,
    listenOn: () => reconciler.healthCheckAddresses,
    clock,
    log,
    onServing: () => startOthers(parts, modeParts, started),
    localNodePorts: parts.localNodePorts,
    ...parts.podPreparation,
    onDeviceMade: () => mode.logDeleter(modeParts),
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
    nodeSettings: parts.nodeSettings,
    endpointVerdicts: parts.endpointCheck,
    clock,
    log,
    observer,
    onChanged: (services) => parts.history.changed(services),
    onWarning: (service, warning) => events.serviceWarning(service, warning),
    onCommonFault: (service, fault) => events.serviceFault(service, fault),
    onRulesRepaired: (family, chains) => {
      metrics.rulesRepaired();
      parts.history.rulesRepaired(family, chains);
    },
  });
  started.defer(() => reconciler.stop());
  observeTraffic({ config, kernel, metrics, cluster, plan: () => reconciler.plan, log: control.log });
  metrics.observeEstimation(() => estimationRuns(kernel));
  health.started(families, clock.now());
  const onAddresses = (): void => reconciler.nodeAddressesChanged();
  started.defer(kernel.watchNode(onAddresses, (reason) => reconciler.kernelStateLost(reason)));
  return reconciler;
}

function openServiceHealth(
  { health, events }: Pick<Parts, 'health' | 'events'>,
  log: Log,
  started: AsyncDisposableStack,
): ServiceHealthServers {
  const servers = new ServiceHealthServers({
    proxyHealthy: () => health.healthy(clock.now()),
    onBindFailure: ({ namespace, name, port }, address, reason, hint) => {
      log.error(`the health check server of service ${namespace}/${name} cannot listen: ${reason}${hint}`, { address });
      events.serviceHealthRefused(namespace, name, `the health check cannot listen on port ${port}: ${reason}`);
    },
  });
  started.defer(() => servers.close());
  return servers;
}

function modePartsOf({ config, iptables, knownLeftovers, metrics }: Parts, log: Log): ModeParts {
  return { config, log, iptables, knownLeftovers, onProgram: (program) => metrics.processStarted(program) };
}

/** Starts what waits for the first sync. */
function startOthers({ mode, lock, endpointCheck }: Parts, modeParts: ModeParts, started: AsyncDisposableStack): void {
  // A daemon in another mode would write again what we remove.
  void lock.taken.then(() => removeOthers(mode, modeParts, started));
  endpointCheck?.start();
}

function removeOthers(mode: Mode, parts: ModeParts, started: AsyncDisposableStack): void {
  // The first sync may have ended while the daemon stops. Then the next start removes what other modes left.
  if (!started.disposed) started.defer(mode.removeOthers(parts));
}

/** Loads what prepares Pods only where it is asked for. */
async function podPreparation(
  { config, kernel, events, control, metrics }: Pick<Parts, 'config' | 'kernel' | 'events' | 'control' | 'metrics'>,
  started: AsyncDisposableStack,
): Promise<Pick<SyncPublisherOptions, 'preparePods'>> {
  if (!config.prepareDirectPods) return {};
  const { createPodPreparer } = await import('./create-pod-preparer.ts');
  const preparer = createPodPreparer({
    folder: config.podNamespaceFolder,
    kernel,
    log: control.log.child('pods'),
    onProgram: (program) => metrics.processStarted(program),
    onWarning: (service, warning) => events.serviceWarning(service, warning),
  });
  started.defer(() => preparer.stop());
  return { preparePods: (wanted, full) => preparer.request(wanted, full) };
}

function setOomScore(score: number, log: Log): void {
  try {
    writeFileSync('/proc/self/oom_score_adj', String(score));
  } catch (error) {
    log.debug(2, `failed to set oom_score_adj: ${errorText(error)}`, { score });
  }
}
