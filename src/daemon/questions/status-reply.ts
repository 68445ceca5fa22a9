import { counted } from '../../base/text/counted.ts';
import { familyLabel, type IpFamily } from '../../base/ip.ts';
import { MODES, type ProxyMode } from '../../base/proxy-mode.ts';
import { Yielder } from '../../base/yielder.ts';
import { BUILD, VERSION } from '../../config/version.ts';
import { REPLY_API_VERSION, type Listed, type StatusReply } from '../../explain/replies.ts';
import { refusedReply } from '../../explain/refused-reply.ts';
import { wordsOf } from '../../explain/words.ts';
import { shadowWords } from '../../explain/difference/difference-tally.ts';
import type { KernelReader } from '../../kernel/kernel.ts';
import { isMissingModule } from '../../kernel/kernel-error.ts';
import type { ServerState } from '../../kube/api/api-client.ts';
import type { Cluster } from '../../model/cluster.ts';
import type { WatchState } from '../../observe/api-observer.ts';
import type { ProxyHealth } from '../../observe/health.ts';
import type { NodePlan } from '../../plan/node/node-plan.ts';
import { plannedSet } from '../../state/set-roles.ts';
import { ownServers } from '../../plan/service-plan.ts';
import type { Clock } from '../../reconcile/timing/clock.ts';
import type { Questioned } from '../../reconcile/questioned.ts';
import { formatRealServer, realServerOf } from '../../state/real-server.ts';
import { formatVirtualServer } from '../../state/virtual-server.ts';
import type { EngineReports } from '../../observe/engine-metrics.ts';
import type { RefusedListener } from '../../userspace/engine-report.ts';
import type { SilentEndpoint } from '../../endpoint-check/endpoint-check.ts';
import { conntrackUse } from './conntrack-use.ts';
import type { History } from './history.ts';
import { silentReply } from './silent-replies.ts';
import { watchGap } from './watch-gap.ts';

/** The properties of the daemon that stay the same while it runs. */
export interface Identity {
  readonly node: string;
  readonly mode: ProxyMode;
  readonly families: readonly IpFamily[];
  readonly iptables: string;
  readonly scheduler: string;
  /** Hash of the settings. */
  readonly configuration: string;
  readonly source: string;
  /** The state of each address of the API server, if it has several. */
  readonly apiServers: () => readonly ServerState[];
}

export interface StatusParts extends Identity {
  readonly reconciler: Questioned;
  readonly kernel: Pick<KernelReader, 'getSysctl'>;
  readonly health: Pick<ProxyHealth, 'healthz'>;
  readonly watches: ReadonlyMap<string, WatchState>;
  readonly cluster: Pick<Cluster, 'sliceCount'>;
  readonly history: History;
  readonly clock: Clock;
  /** Endpoints that do not answer; undefined if endpoints are not checked. */
  readonly silentEndpoints?: () => Iterable<SilentEndpoint> | undefined;
  /** Leftovers of other modes on this node. */
  readonly knownLeftovers?: { readonly texts: readonly string[] };
  readonly engines?: { reports(): Promise<EngineReports> };
  /** Node ports at loopback addresses. */
  readonly localNodePorts?: { refusedText(refused: RefusedListener): string };
  /** With --dry-run: what the shadow found last. */
  readonly shadow?: () => StatusReply['shadow'];
}

const MOST_LISTED = 20;

/** Collects the state of the daemon. Reads only a few files of the kernel. */
export async function statusReply(parts: StatusParts): Promise<StatusReply> {
  const { node, reconciler, history, clock, watches } = parts;
  const { plan, standing } = reconciler;
  const health = healthOf(parts);
  const settings = await settingsOf(reconciler);
  const conntrack = await conntrackUse(parts.kernel);
  const objects = await objectsOf(parts, plan);
  const refused = listed(standing.failing, (failing) => refusedReply(failing, wordsOf(parts.mode)));
  const wrong = wrongOf(parts, health, refused.count, settings.length);
  const shadow = parts.shadow?.();
  const services = counted(objects.objects.services, 'Service');
  const served =
    parts.shadow === undefined
      ? `kube-ipvs-proxy serves ${services} on node ${node}`
      : `kube-ipvs-proxy is a shadow on node ${node} (--dry-run) and changes nothing; ${services} planned`;
  return {
    apiVersion: REPLY_API_VERSION,
    kind: 'Status',
    node,
    ok: wrong === undefined,
    verdict: wrong === undefined ? served : `kube-ipvs-proxy on node ${node}: ${wrong}`,
    version: VERSION,
    commit: BUILD.commit,
    startedAt: history.timeText(clock.now() - process.uptime() * 1000),
    uptimeSeconds: Math.floor(process.uptime()),
    mode: parts.mode,
    families: parts.families.map(familyLabel),
    iptables: parts.iptables,
    scheduler: parts.scheduler,
    configuration: parts.configuration,
    source: parts.source,
    apiServers: parts.apiServers().map(({ server, inUse, answeredAt, failed }) => ({
      server,
      inUse,
      ...(answeredAt === undefined ? {} : { answeredAt: history.timeText(answeredAt) }),
      ...(failed === undefined ? {} : { failedAt: history.timeText(failed.at), failure: failed.reason }),
    })),
    watches: Object.fromEntries(Array.from(watches, ([resource, { state }]) => [resource, state])),
    watchesSince: Object.fromEntries(
      Array.from(watches, ([resource, { since }]) => [resource, history.timeText(since)]),
    ),
    ...(history.lastEventAt === undefined ? {} : { lastEventAt: history.lastEventAt }),
    syncs: syncsOf(parts),
    ...objects,
    refused,
    draining: drainingOf(parts),
    ...silentOf(parts, plan),
    repairs: history.repairs,
    ...(conntrack === undefined ? {} : { conntrack }),
    settings,
    notes: await reconciler.answers.forwardingNotes(),
    leftOfOtherModes: parts.knownLeftovers?.texts ?? [],
    ...(shadow === undefined ? {} : { shadow }),
    ...(await userspaceOf(parts)),
    health,
  };
}

function drainingOf({ reconciler: { standing }, clock }: StatusParts): StatusReply['draining'] {
  return listed([...standing.draining], ({ id, server, since }) => ({
    virtualServer: formatVirtualServer(id),
    realServer: formatRealServer(realServerOf(server)),
    sinceSeconds: Math.floor((clock.now() - since) / 1000),
  }));
}

async function userspaceOf({ engines, localNodePorts }: StatusParts): Promise<Pick<StatusReply, 'userspace'>> {
  const { all, local } = (await engines?.reports()) ?? {};
  if (all === undefined) return {};
  const { listening, totals } = all;
  const { connections, active, refused, failedConnections } = totals;
  const listeners = listening[4] + listening[6];
  const notServed = listed(local?.refusedListeners ?? [], (one) => localNodePorts?.refusedText(one) ?? '');
  return { userspace: { listeners, connections, active, refused, failed: failedConnections, notServed } };
}

/** @param namespace only Services of this namespace */
export function silentOf(
  { silentEndpoints, clock }: Pick<StatusParts, 'silentEndpoints' | 'clock'>,
  plan: NodePlan,
  namespace?: string,
): Pick<StatusReply, 'silent'> {
  const silent = silentEndpoints?.();
  if (silent === undefined) return {};
  const asked = Array.from(silent).filter(
    ({ service }) => namespace === undefined || service.startsWith(`${namespace}/`),
  );
  return { silent: listed(asked, (endpoint) => silentReply(endpoint, plan, clock.now())) };
}

/** Without ip_vs, its timeouts cannot be read; health has that reason already. */
async function settingsOf(reconciler: StatusParts['reconciler']): Promise<readonly string[]> {
  try {
    return await reconciler.answers.settings();
  } catch (error) {
    if (isMissingModule(error)) return [];
    throw error;
  }
}

function listed<T, U>(items: readonly T[], text: (item: T) => U): Listed<U> {
  return { count: items.length, first: items.slice(0, MOST_LISTED).map(text) };
}

/** Returns what is wrong, the worst first; undefined if nothing is. */
function wrongOf(
  { reconciler, history, shadow, watches, clock }: StatusParts,
  health: StatusReply['health'],
  refused: number,
  settings: number,
): string | undefined {
  const found = shadow?.();
  if (!reconciler.started) return `the first ${shadow === undefined ? 'sync' : 'comparison'} has not succeeded yet`;
  if (!health.healthy) return health.reason ?? 'not healthy';
  const gap = watchGap(watches, clock.now());
  if (gap !== undefined) return gap;
  if (found !== undefined) return found.unexpected > 0 ? `a shadow (--dry-run): ${shadowWords(found)}` : undefined;
  const failed = (['change', 'full'] as const).map((kind) => history.last(kind)).find((sync) => sync?.ok === false);
  if (failed !== undefined) return `the last sync failed: ${failed.error}`;
  if (refused > 0) return `the kernel refuses ${counted(refused, 'operation')}, and they are tried again`;
  if (health.problems[0] !== undefined) return health.problems[0];
  return settings > 0 ? `not as wanted on this node: ${counted(settings, 'setting')}` : undefined;
}

function healthOf({ health, clock }: StatusParts): StatusReply['health'] {
  const { status, body } = health.healthz(clock);
  const { reason, problems = [] } = JSON.parse(body) as { reason?: string; problems?: readonly string[] };
  return { healthy: status === 200, ...(reason === undefined ? {} : { reason }), problems };
}

function syncsOf({ reconciler, history, clock }: StatusParts): StatusReply['syncs'] {
  const [first, change, full] = (['first', 'change', 'full'] as const).map((kind) => history.last(kind));
  const nextMs = reconciler.standing.fullCheckDueAt - clock.now();
  return {
    running: reconciler.syncing,
    ...(first === undefined ? {} : { first }),
    ...(change === undefined ? {} : { change }),
    ...(full === undefined ? {} : { full }),
    ...(Number.isFinite(nextMs) ? { nextFullCheckInSeconds: Math.max(0, Math.round(nextMs / 1000)) } : {}),
  };
}

async function objectsOf(
  { mode, families, cluster }: Pick<StatusParts, 'mode' | 'families' | 'cluster'>,
  plan: NodePlan,
): Promise<Pick<StatusReply, 'objects' | 'sets' | 'conflicts' | 'warnings'>> {
  const yielder = new Yielder();
  const objects = {
    services: 0,
    endpointSlices: cluster.sliceCount,
    virtualServers: plan.virtualServerCount,
    realServers: 0,
    addresses: plan.addressCount,
  };
  const conflicts: StatusReply['conflicts']['first'][number][] = [];
  const warnings: StatusReply['warnings']['first'][number][] = [];
  for (const { service, virtualServers, warnings: own } of plan.services()) {
    objects.services += 1;
    for (const planned of virtualServers) objects.realServers += ownServers(planned).length;
    for (const { claimed, owner } of plan.conflictsOf(service)) conflicts.push({ claimed, owner, loser: service });
    for (const { message } of own) warnings.push({ service, message });
    if (yielder.due) await yielder.yieldIfDue();
  }
  const sets = families.flatMap((family) =>
    plan.roles.map((role) => {
      const entries = plan.entries(role, family).size;
      const set = plannedSet(role, family, entries);
      const name = wordsOf(mode).set(set);
      return MODES[mode].hasIpsets ? { name, entries, capacity: set.maxEntries } : { name, entries };
    }),
  );
  const setEntries = sets.reduce((sum, { entries }) => sum + entries, 0);
  return {
    objects: { ...objects, setEntries },
    sets: sets.filter(({ entries }) => entries > 0),
    conflicts: listed(conflicts, (conflict) => conflict),
    warnings: listed(warnings, (warning) => warning),
  };
}
