import { errorText } from '../../base/text/error-text.ts';
import type { Kernel } from '../../kernel/kernel.ts';
import { type NamespacedName, splitName } from '../../base/service/names.ts';
import { Yielder } from '../../base/yielder.ts';
import type { Log } from '../../observe/log/log.ts';
import type { ServicePortTraffic } from '../../observe/service-traffic.ts';
import type { NodePlan } from '../../plan/node/node-plan.ts';
import { type VirtualServerId, type VirtualServerKey, virtualServerKey } from '../../state/virtual-server.ts';
import { RealServerMetrics } from './real-server-metrics.ts';
import { LogOnChange } from '../../observe/log/log-on-change.ts';
import { type CounterReading, TrafficAccounts, addConnections, emptyReading } from './traffic-accounts.ts';
import type { RealServerStats, VirtualServerStats } from '../../state/server-stats.ts';

export interface ServiceMetricsOptions {
  readonly kernel: Pick<Kernel, 'getVirtualServerStats' | 'getRealServerStats'>;
  readonly plan: () => Pick<NodePlan, 'services'>;
  readonly isMeasured: (service: NamespacedName) => boolean;
  /** Maximum number of Services with metrics; 0 disables the metrics. */
  readonly limit: number;
  /** Whether to include metrics of each real server. */
  readonly realServers: boolean;
  readonly log: Log;
}

/** One port of one Service, with the virtual servers that it has now. */
interface PlannedPort extends CounterReading {
  readonly key: string;
  readonly labels: Pick<ServicePortTraffic, 'namespace' | 'service' | 'portName' | 'protocol'>;
  readonly ids: VirtualServerId[];
}

/**
 * Traffic per Service, read from the kernel only when metrics are scraped. A Service port has several virtual servers,
 * such as those of the cluster IP and the node ports; their traffic is summed.
 */
export class ServiceMetrics {
  readonly #options: ServiceMetricsOptions;
  readonly #accounts = new TrafficAccounts();
  readonly #realServers: RealServerMetrics | undefined;
  readonly #notice: LogOnChange;
  #reading: Promise<readonly ServicePortTraffic[]> | undefined;

  constructor(options: ServiceMetricsOptions) {
    this.#options = options;
    this.#realServers = options.realServers ? new RealServerMetrics(options.limit, options.log) : undefined;
    this.#notice = new LogOnChange(
      (sentence) => options.log.warn(sentence),
      () => options.log.info('per-service metrics available again'),
    );
  }

  /** Never rejects: returns nothing if the kernel cannot be read. Concurrent calls share one read. */
  async read(): Promise<readonly ServicePortTraffic[]> {
    if (this.#options.limit === 0) return [];
    this.#reading ??= this.#read().finally(() => {
      this.#reading = undefined;
    });
    return await this.#reading;
  }

  async #read(): Promise<readonly ServicePortTraffic[]> {
    const { kernel, limit } = this.#options;
    const ports = this.#ports();
    if (ports === undefined) {
      this.#accounts.clear();
      this.#realServers?.clear();
      this.#notice.say(`per-service metrics disabled: more than ${limit} selected services (--service-metrics-limit)`);
      return [];
    }
    if (ports.size === 0) return [];
    try {
      const stats = await kernel.getVirtualServerStats();
      const ids = [...ports.values()].flatMap((port) => port.ids).filter((id) => stats.has(virtualServerKey(id)));
      const servers = await kernel.getRealServerStats(ids);
      const traffic = await new Yielder().finish(this.#count(ports, stats, servers));
      this.#notice.end();
      return traffic;
    } catch (error) {
      this.#notice.say(`failed to read per-service metrics: ${errorText(error)}`);
      return [];
    }
  }

  /** Counts the traffic of each port. The caller may pause at each `yield`. */
  *#count(
    ports: ReadonlyMap<string, PlannedPort>,
    stats: ReadonlyMap<VirtualServerKey, VirtualServerStats>,
    servers: ReadonlyMap<VirtualServerKey, readonly RealServerStats[]>,
  ): Generator<void, ServicePortTraffic[], undefined> {
    for (const port of ports.values()) {
      for (const key of port.ids.map(virtualServerKey)) {
        const now = stats.get(key);
        if (now !== undefined) port.counters.set(key, now);
        for (const server of servers.get(key) ?? []) addConnections(port, server);
      }
      yield;
    }
    const byPort = this.#realServers && (yield* this.#realServers.count(ports, servers));
    const counted = yield* this.#accounts.count(ports, (virtualServer) => !stats.has(virtualServer));
    return counted.map(([{ key, labels }, traffic]) => ({
      ...labels,
      ...traffic,
      realServers: byPort?.get(key) ?? [],
    }));
  }

  /** Returns the Service ports with virtual servers; undefined if there are more measured Services than the limit. */
  #ports(): Map<string, PlannedPort> | undefined {
    const { limit, plan, isMeasured } = this.#options;
    const ports = new Map<string, PlannedPort>();
    let services = 0;
    for (const { service, virtualServers } of plan().services()) {
      if (!isMeasured(service)) continue;
      if (++services > limit) return undefined;
      const { namespace, name } = splitName(service);
      for (const { virtualServer: id, portName } of virtualServers) {
        const key = `${service} ${portName} ${id.protocol}`;
        const port = ports.get(key);
        if (port === undefined) {
          const labels = { namespace, service: name, portName, protocol: id.protocol };
          ports.set(key, { key, labels, ids: [id], ...emptyReading() });
        } else {
          port.ids.push(id);
        }
      }
    }
    return ports;
  }
}
