import { setImmediate } from 'node:timers/promises';
import type { Kernel } from '../../src/kernel/kernel.ts';
import { Interner } from '../../src/kube/objects/interner.ts';
import { LineSplitter } from '../../src/kube/json/line-splitter.ts';
import type { ObjectMeta } from '../../src/kube/objects/objects.ts';
import { ENDPOINT_SLICES, type Resource, SERVICES } from '../../src/kube/api/resource.ts';
import type { ObjectEvent, SourceEvent } from '../../src/kube/objects/source.ts';
import { trimNode } from '../../src/kube/objects/trim-objects.ts';
import { decodeWatchEvent } from '../../src/kube/api/watch-event.ts';
import { EventFeed } from '../../src/daemon/run/event-feed.ts';
import { noteEvent } from '../../src/daemon/run/source-events.ts';
import { SyncPublisher } from '../../src/daemon/run/sync-publisher.ts';
import { Cluster } from '../../src/model/cluster.ts';
import { ProxyHealth } from '../../src/observe/health.ts';
import { ProxyMetrics } from '../../src/observe/proxy-metrics.ts';
import { ServiceHealthServers } from '../../src/observe/service-health-servers.ts';
import { type Clock, SYSTEM_CLOCK } from '../../src/reconcile/timing/clock.ts';
import { Reconciler } from '../../src/reconcile/reconciler.ts';
import { QuietLog } from '../../test/contract/quiet-log.ts';
import { PLAN, SYNC_PERIOD_MS } from './bench-node.ts';
import type { WatchLine } from './churn-history.ts';
import { NODE_NAME, nodeObject } from './large-cluster.ts';
import type { SyncReport } from '../../src/state/sync-report.ts';

const MAX_LINE_BYTES = 1024 * 1024;

/**
 * All of the daemon between the bytes of its watches and its kernel, put together as the daemon does it, in this process: what it keeps
 * can be weighed.
 */
export class UserSpace {
  readonly cluster = new Cluster(NODE_NAME);
  readonly interner = new Interner();
  readonly log = new QuietLog();
  readonly metrics = new ProxyMetrics();
  readonly reconciler: Reconciler;
  #bootstrapping = 0;
  readonly #clock: Clock = { ...SYSTEM_CLOCK, now: () => SYSTEM_CLOCK.now() + this.#bootstrapping };
  readonly #health = new ProxyHealth(2 * SYNC_PERIOD_MS);
  readonly #serviceHealth = new ServiceHealthServers({ proxyHealthy: () => true, onBindFailure: () => undefined });
  readonly #feed: EventFeed;
  readonly #splitters = {
    service: new LineSplitter(MAX_LINE_BYTES),
    'endpoint-slice': new LineSplitter(MAX_LINE_BYTES),
  };
  #reports = 0;
  #failed: SyncReport | undefined;

  constructor(kernel: Kernel) {
    const { cluster, log, metrics } = this;
    const publisher = new SyncPublisher({
      families: PLAN.families,
      kernel,
      cluster,
      plan: () => this.reconciler.plan,
      metrics,
      health: this.#health,
      history: { finished: () => undefined },
      serviceHealth: this.#serviceHealth,
      listenOn: () => this.reconciler.healthCheckAddresses,
      clock: this.#clock,
      log,
      onServing: () => undefined,
      onDeviceMade: () => undefined,
    });
    this.reconciler = new Reconciler({
      kernel,
      cluster,
      plan: PLAN,
      nodeIpOverride: undefined,
      excludeCidrs: [],
      syncPeriodMs: SYNC_PERIOD_MS,
      minSyncPeriodMs: 0,
      drainTimeoutMs: 0,
      clock: this.#clock,
      log,
      observer: {
        queued: () => publisher.queued(),
        finished: (report) => {
          this.#reports++;
          if (!report.ok || report.failures.length > 0) this.#failed = report;
          publisher.finished(report);
        },
      },
    });
    this.#feed = new EventFeed(cluster, (event) => {
      noteEvent(event, cluster, metrics, this.#health, undefined);
      this.reconciler.clusterChanged();
    });
  }

  /** The lists, whole; resolves after the first sync. */
  async list(lines: Iterable<WatchLine>): Promise<void> {
    const node = trimNode(nodeObject(), this.interner).object;
    if (node === undefined) throw new Error('the node is of no use');
    const services = [];
    const slices = [];
    for (const line of lines) {
      if (line.kind === 'service') services.push(...applied(this.#read(line, SERVICES)));
      else slices.push(...applied(this.#read(line, ENDPOINT_SLICES)));
    }
    await this.sync([
      { kind: 'node', event: { type: 'replaced', objects: [node] } },
      { kind: 'service', event: { type: 'replaced', objects: services } },
      { kind: 'endpoint-slice', event: { type: 'replaced', objects: slices } },
    ]);
  }

  /** Events, and a sync after the last of them. */
  async sync(events: readonly SourceEvent[]): Promise<void> {
    for (const event of events) this.#feed.take(event);
    await this.settled();
  }

  /** The periodic check, its time come. */
  async fullCheck(): Promise<void> {
    this.#bootstrapping += SYNC_PERIOD_MS;
    this.reconciler.clusterChanged();
    await this.settled();
  }

  /** One line of a watch. */
  take(line: WatchLine): void {
    if (line.kind === 'service')
      for (const event of this.#read(line, SERVICES)) this.#feed.take({ kind: line.kind, event });
    else for (const event of this.#read(line, ENDPOINT_SLICES)) this.#feed.take({ kind: line.kind, event });
  }

  /** Resolves when a sync has ended after all that was taken. */
  async settled(): Promise<void> {
    for (let before = this.#reports; this.#reports === before || this.cluster.pending().services > 0;) {
      if (this.#failed !== undefined) throw new Error(`a sync failed: ${this.#failed.error?.message ?? 'operations'}`);
      await setImmediate();
    }
  }

  async stop(): Promise<void> {
    await this.#feed.stop();
    await this.reconciler.stop();
    await this.#serviceHealth.close();
  }

  #read<T extends { readonly meta: ObjectMeta }>({ kind, text }: WatchLine, resource: Resource<T>): ObjectEvent<T>[] {
    const lines = this.#splitters[kind].feed(Buffer.from(text));
    if (lines === undefined) throw new Error('a line is too long');
    return lines.map((line) => {
      const event = decodeWatchEvent(line, resource, this.interner);
      if (event.type === 'applied' || event.type === 'deleted') return event;
      throw new Error(`the line of a watch is ${event.type}`);
    });
  }
}

function applied<T>(events: readonly ObjectEvent<T>[]): readonly T[] {
  return events.flatMap((event) => (event.type === 'applied' ? [event.object] : []));
}
