import { writeFileSync } from 'node:fs';
import { type IpFamily, familyOf } from '../../base/ip.ts';
import { MODES } from '../../base/proxy-mode.ts';
import { errorText } from '../../base/text/error-text.ts';
import type { ProxyConfig } from '../../config/proxy-config.ts';
import { VERSION } from '../../config/version.ts';
import type { Kernel } from '../../kernel/kernel.ts';
import type { Log } from '../../observe/log/log.ts';
import { ServiceHealthServers } from '../../observe/service-health-servers.ts';
import type { LogControl } from '../../observe/log/winston-log.ts';
import type { PlanConfig } from '../../plan/plan-config.ts';
import type { NodeSettings } from '../../reconcile/node/node-settings.ts';
import { Reconciler } from '../../reconcile/reconciler.ts';
import { SYSTEM_CLOCK as clock } from '../../reconcile/timing/clock.ts';
import { PHASES } from '../../state/transaction.ts';
import type { EndpointChecker } from '../endpoint-check/endpoint-checker.ts';
import { KnownLeftovers } from '../modes/known-leftovers.ts';
import { loadMode } from '../modes/load-mode.ts';
import type { Mode, ModeParts } from '../modes/mode.ts';
import { type DaemonLock, holdDaemonLock } from '../startup/daemon-lock.ts';
import { estimationRuns } from '../startup/estimation.ts';
import { setUpKernel, usableFamilies } from '../startup/kernel-setup.ts';
import { requireRights } from '../startup/rights.ts';
import { observeTraffic } from '../traffic/observe-traffic.ts';
import { DaemonEvents } from './daemon-events.ts';
import { Engines } from './engines.ts';
import { LocalNodePorts, type LocalNodePortsOptions, engineLimitsOf } from './local-node-ports.ts';
import {
  type Program,
  answerQuestions,
  awaitOwnNode,
  followSource,
  listen,
  logStart,
  openProgram,
  watchConfig,
} from './program.ts';
import { SyncPublisher, type SyncPublisherOptions } from './sync-publisher.ts';
import { runUntilStopped } from './until-stopped.ts';

/** Runs until SIGTERM, SIGINT or a configuration change. Resolves to the exit code. Leaves kernel objects in place. */
export function runDaemon(config: ProxyConfig): Promise<number> {
  return runUntilStopped(
    config,
    start,
    MODES[config.mode].forwards === true
      ? 'stopped: rules remain in the kernel, so Services keep working; connections that the engine had are broken'
      : 'stopped: virtual servers, sets and rules remain in the kernel, so Services keep working',
  );
}

/** The parts of the daemon before it knows our Node. */
interface Daemon extends Program {
  readonly mode: Mode;
  readonly kernel: Kernel;
  readonly events: DaemonEvents;
  readonly knownLeftovers: KnownLeftovers;
  readonly lock: DaemonLock;
  readonly engines: Engines;
  readonly localNodePorts: LocalNodePorts;
}

async function start(
  config: ProxyConfig,
  control: LogControl,
  stop: AbortController,
  started: AsyncDisposableStack,
): Promise<void> {
  setOomScore(config.oomScoreAdj, control.log);

  // Check credentials, privileges, ports and the kernel before writing anything that outlives this process.
  const program = openProgram(config, control, stop, started, PHASES);
  const { log, nodeName, metrics, opened } = program;
  const events = openEvents(program);
  requireRights({ rules: MODES[config.mode].rules === 'iptables', podNamespaces: config.prepareDirectPods });
  const mode = await loadMode(config.mode);
  const lock = await holdDaemonLock({ node: nodeName, mode: config.mode, version: VERSION }, log, config);
  started.defer(lock.release);

  let reconciler: Reconciler | undefined;
  let endpointCheck: EndpointChecker | undefined;
  const programmed = Promise.withResolvers<void>();
  const follow = (): void => followSource(program, () => reconciler, programmed.promise);
  // List from the API server during the kernel checks. A directory of manifests is read after them: that takes no time.
  const remote = 'apiServer' in opened.origin;
  if (remote) follow();

  const engines = new Engines();
  const kernel = openKernel(program, mode, engines);
  await kernel.probeScheduler(config.scheduler);
  const usable = await usableFamilies(kernel, config, log);
  logStart('kube-ipvs-proxy is starting', program, usable);
  const knownLeftovers = new KnownLeftovers((isAnyLeft) => metrics.setOtherModesLeft(isAnyLeft));
  const localNodePorts = openLocalNodePorts(program, events, engines);
  const daemon = { ...program, mode, kernel, events, knownLeftovers, lock, engines, localNodePorts };
  const preparation = await podPreparation(daemon);
  await listen(program, events.serverRefused.bind(events));
  const late = { reconciler: () => reconciler, silentEndpoints: () => endpointCheck?.silent() };
  await answerQuestions(program, usable, { kernel, knownLeftovers, engines, localNodePorts, ...late });
  const nodeSettings = await setUpKernel(kernel, config, log, (note) => events.sysReadOnly(note));
  watchConfig(program);

  if (!remote) follow();
  events.started();
  const planConfig = await awaitOwnNode(program, usable.families);
  if (planConfig === undefined) return;
  // Call this after the checks of our Node: it creates kube-ipvs0, which would remain if a check failed.
  await kernel.prepare();

  endpointCheck = await checkEndpoints(daemon, () => reconciler);
  reconciler = startReconciler({ ...daemon, ...usable, ...preparation, planConfig, nodeSettings, endpointCheck });
  reconciler.clusterChanged();
  programmed.resolve(reconciler.bootstrapped());
}

function openKernel({ config, metrics, log, started }: Program, mode: Mode, engines: Engines): Kernel {
  const kernel = mode.createKernel({
    log: log.child('kernel'),
    onProgram: (name) => metrics.processStarted(name),
    onRestoreFailure: (family) => metrics.iptablesRestoreFailed(family),
    modeObserver: metrics,
    engineLimits: engineLimitsOf(config),
    onEngine: (read) => engines.set('mode', read),
  });
  started.defer(() => kernel.close());
  return kernel;
}

/** Returns undefined if endpoints are not checked: then nothing of it is loaded or read. */
async function checkEndpoints(
  { config, kernel, metrics, events, log, started }: Daemon,
  reconciler: () => Reconciler | undefined,
): Promise<EndpointChecker | undefined> {
  const { endpointCheck: wanted } = config;
  if (wanted === 'off') return undefined;
  const { openEndpointCheck } = await import('../endpoint-check/open-endpoint-check.ts');
  const checker = await openEndpointCheck({
    wanted,
    kernel,
    metrics,
    clock,
    log: log.child('endpoint-check'),
    ownerOf: (key) => reconciler()?.plan.ownerOf(key),
    onJudged: (services) => reconciler()?.endpointsJudged(services),
    onSilent: events.endpointsSilent.bind(events),
  });
  started.defer(() => checker.stop());
  return checker;
}

function openEvents({ config, nodeName, opened, log, started }: Program): DaemonEvents {
  const options = { nodeName, sink: opened.eventSink, ofServices: config.serviceEvents, clock };
  const events = new DaemonEvents({ ...options, log: log.child('events') });
  started.defer(() => events.close());
  return events;
}

function openLocalNodePorts(
  { config, metrics, log, started }: Program,
  events: DaemonEvents,
  engines: Engines,
): LocalNodePorts {
  const limits = engineLimitsOf(config);
  const onRefused: LocalNodePortsOptions['onRefused'] = ({ address }, service, text) => {
    metrics.localListenerRefused(familyOf(address));
    if (service !== undefined) events.nodePortRefused(service, text);
  };
  const localNodePorts = new LocalNodePorts({ limits, log: log.child('localhost'), onRefused });
  started.defer(() => localNodePorts.close());
  engines.set('local', () => localNodePorts.report());
  metrics.observe({ engines: () => engines.reports() });
  return localNodePorts;
}

interface ReconcilerParts extends Daemon, Pick<SyncPublisherOptions, 'preparePods'> {
  readonly families: readonly IpFamily[];
  readonly iptables: string | undefined;
  readonly planConfig: PlanConfig;
  readonly nodeSettings: NodeSettings;
  readonly endpointCheck: EndpointChecker | undefined;
}

function startReconciler(parts: ReconcilerParts): Reconciler {
  const { config, mode, kernel, metrics, health, cluster, families, events, history, started } = parts;
  const log = parts.log.child('sync');
  const modeParts: ModeParts = { ...parts, log, onProgram: (name) => metrics.processStarted(name) };
  const observer = new SyncPublisher({
    ...parts,
    plan: () => reconciler.plan,
    serviceHealth: openServiceHealth(parts, log),
    listenOn: () => reconciler.healthCheckAddresses,
    clock,
    log,
    onServing: () => startOthers(parts, modeParts),
    onDeviceMade: () => mode.logDeleter(modeParts),
  });
  const reconciler = new Reconciler({
    kernel,
    cluster,
    plan: parts.planConfig,
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
    onChanged: (services) => history.changed(services),
    onWarning: (service, warning) => events.serviceWarning(service, warning),
    onCommonFault: (service, fault) => events.serviceFault(service, fault),
    onRulesRepaired: (family, chains) => {
      metrics.rulesRepaired();
      history.rulesRepaired(family, chains);
    },
  });
  started.defer(() => reconciler.stop());
  observeTraffic({ config, kernel, metrics, cluster, plan: () => reconciler.plan, log: parts.log });
  metrics.observe({ estimation: () => estimationRuns(kernel) });
  health.started(families, clock.now());
  const onAddresses = (): void => reconciler.nodeAddressesChanged();
  started.defer(kernel.watchNode(onAddresses, (reason) => reconciler.kernelStateLost(reason)));
  return reconciler;
}

function openServiceHealth({ health, events, started }: Daemon, log: Log): ServiceHealthServers {
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

/** Starts what waits for the first sync. */
function startOthers({ mode, lock, endpointCheck, started }: ReconcilerParts, modeParts: ModeParts): void {
  // A daemon in another mode would write again what we remove.
  void lock.taken.then(() => {
    // The first sync may have ended while the daemon stops. Then the next start removes what other modes left.
    if (!started.disposed) started.defer(mode.removeOthers(modeParts));
  });
  endpointCheck?.start();
}

/** Loads what prepares Pods only where it is asked for. */
async function podPreparation({
  config,
  kernel,
  events,
  log,
  metrics,
  started,
}: Daemon): Promise<Pick<SyncPublisherOptions, 'preparePods'>> {
  if (!config.prepareDirectPods) return {};
  const { createPodPreparer } = await import('./create-pod-preparer.ts');
  const preparer = createPodPreparer({
    folder: config.podNamespaceFolder,
    kernel,
    log: log.child('pods'),
    onProgram: (name) => metrics.processStarted(name),
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
