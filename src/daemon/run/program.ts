import { release } from 'node:os';
import { type IpFamily, familyLabel } from '../../base/ip.ts';
import { watchConfigFile } from '../../config/config-file-watch.ts';
import { configurationHash } from '../../config/configuration-hash.ts';
import type { ProxyConfig } from '../../config/proxy-config.ts';
import { BUILD, VERSION } from '../../config/version.ts';
import type { SourceEvent } from '../../kube/objects/source.ts';
import { Cluster } from '../../model/cluster.ts';
import { ProxyHealth } from '../../observe/health.ts';
import type { Log } from '../../observe/log/log.ts';
import type { LogControl } from '../../observe/log/winston-log.ts';
import { ProxyMetrics } from '../../observe/proxy-metrics.ts';
import type { PlanConfig } from '../../plan/plan-config.ts';
import { SYSTEM_CLOCK as clock } from '../../reconcile/timing/clock.ts';
import type { AnswererOptions } from '../questions/answerers.ts';
import { History } from '../questions/history.ts';
import { openQuerySocket } from '../questions/query-socket.ts';
import type { Identity } from '../questions/status-reply.ts';
import { checkAgainstNode } from '../startup/cross-checks.ts';
import type { UsableFamilies } from '../startup/kernel-setup.ts';
import { nodeNameOf, planConfigOf } from '../startup/node-identity.ts';
import { waitForNode } from '../startup/node-wait.ts';
import { type OpenedSource, openSource } from '../startup/open-source.ts';
import { EventFeed } from './event-feed.ts';
import { NodeChanges } from './node-changes.ts';
import { startServers } from './servers.ts';
import { needsSync, noteEvent } from './source-events.ts';

/** What the daemon and a shadow (--dry-run) have in common. */
export interface Program {
  readonly config: ProxyConfig;
  readonly control: LogControl;
  readonly log: Log;
  /** Ends the program, with an exit code as the reason. */
  readonly stop: AbortController;
  /** Is disposed at the end. */
  readonly started: AsyncDisposableStack;
  readonly nodeName: string;
  readonly metrics: ProxyMetrics;
  readonly opened: OpenedSource;
  readonly cluster: Cluster;
  readonly health: ProxyHealth;
  readonly history: History;
  readonly nodeChanges: NodeChanges;
}

/** Reads credentials, but does not connect. @param operations as in ProxyMetrics */
export function openProgram(
  config: ProxyConfig,
  control: LogControl,
  stop: AbortController,
  started: AsyncDisposableStack,
  operations: readonly string[],
): Program {
  const { log } = control;
  const nodeName = nodeNameOf(config);
  const metrics = new ProxyMetrics(config.featureGates, operations, config.mode);
  const opened = openSource(config, nodeName, metrics, log);
  started.defer(() => opened.close());
  return {
    config,
    control,
    log,
    stop,
    started,
    nodeName,
    metrics,
    opened,
    cluster: new Cluster(nodeName, config.serviceAnnotations),
    health: new ProxyHealth(2 * config.syncPeriod, nodeName),
    history: new History(clock, config.mode),
    nodeChanges: new NodeChanges({ config, log, end: () => stop.abort(1) }),
  };
}

/**
 * Applies the events of the source to the cluster, and tells the reconciler of them.
 *
 * @param programmed see Source
 */
export function followSource(
  { opened: { source }, cluster, metrics, health, nodeChanges, history, started }: Program,
  reconciler: () => { clusterChanged(): void } | undefined,
  programmed: Promise<void> = Promise.resolve(),
): void {
  const feed = new EventFeed(cluster, (event: SourceEvent) => {
    noteEvent(event, cluster, metrics, health, nodeChanges);
    history.eventApplied();
    if (needsSync(event, cluster)) reconciler()?.clusterChanged();
  });
  started.defer(() => feed.stop());
  source.start((event) => feed.take(event), programmed);
  started.defer(() => source.stop());
}

/** Opens the ports for probes and scrapes. */
export async function listen(
  { config, health, metrics, control, started }: Program,
  onRefused: Parameters<typeof startServers>[4] = () => undefined,
): Promise<void> {
  metrics.lag.start();
  started.defer(() => metrics.lag.stop());
  const servers = await startServers(config, health, metrics, control, onRefused);
  for (const server of servers) started.defer(() => server.close());
}

/** Opens the socket of the subcommands. */
export async function answerQuestions(
  program: Program,
  usable: UsableFamilies,
  parts: Pick<AnswererOptions, 'kernel' | 'reconciler'> & Partial<AnswererOptions>,
): Promise<void> {
  const { config, metrics, started } = program;
  const shared = { ...program, ...identityOf(program, usable), clock, watches: metrics.watchStates };
  started.defer(await openQuerySocket(config.querySocket, { ...shared, ...parts }));
}

/** Returns what the subcommand status says of this process. */
function identityOf(
  { nodeName, config, opened: { origin, apiServers } }: Program,
  { families, iptables = 'unknown' }: UsableFamilies,
): Identity {
  return {
    node: nodeName,
    mode: config.mode,
    families,
    iptables,
    scheduler: config.scheduler,
    configuration: configurationHash(config),
    source: 'apiServer' in origin ? origin.apiServer : origin.manifests,
    apiServers,
  };
}

/** Logs what a bug report needs, in one line. */
export function logStart(sentence: string, { config, nodeName, opened, log }: Program, usable: UsableFamilies): void {
  log.info(sentence, {
    version: VERSION,
    commit: BUILD.commit.slice(0, 12),
    mode: config.mode,
    node: nodeName,
    families: usable.families.map(familyLabel),
    iptables: usable.iptables ?? 'unknown',
    kernel: release(),
    nodejs: process.version,
    ...opened.origin,
  });
}

/**
 * Waits for our Node and checks the configuration against it. Returns the configuration of the planner; undefined if
 * the program is stopped meanwhile.
 *
 * @throws StartupError if the configuration contradicts the Node
 */
export async function awaitOwnNode(
  { config, nodeName, cluster, nodeChanges, log, stop: { signal } }: Program,
  families: readonly IpFamily[],
): Promise<PlanConfig | undefined> {
  await waitForNode({ cluster, config, nodeName, clock, signal, log });
  if (signal.aborted) return undefined;
  // From here on without waiting, so that no change of our Node is missed.
  checkAgainstNode(config, families, cluster.node(), log);
  nodeChanges.begin(families, cluster.node());
  return planConfigOf(config, nodeName, families, cluster);
}

/** Stops the program with exit code 1 when the file of --config changes. */
export function watchConfig({ config, stop, started, log }: Program): void {
  if (config.configFile === undefined) return;
  const onChange = (): void => {
    log.error('configuration file changed: exiting, so that a restart reads the new content');
    stop.abort(1);
  };
  started.defer(watchConfigFile({ ...config.configFile, onChange }));
}
