import { errorText } from '../../base/error-text.ts';
import type { Kernel } from '../../kernel/kernel.ts';
import { splitName } from '../../base/names.ts';
import { Yielder } from '../../base/yielder.ts';
import type { Log } from '../../observe/log.ts';
import type { RealServerTraffic, ServicePortTraffic } from '../../observe/service-traffic.ts';
import type { NodePlan } from '../../plan/node-plan.ts';
import { type VirtualServerId, type VirtualServerKey, virtualServerKey } from '../../state/virtual-server.ts';
import { RealServerMetrics } from './real-server-metrics.ts';
import { LogOnChange } from '../../observe/log-on-change.ts';
import { type Readings, TrafficAccounts } from './traffic-accounts.ts';
import type { RealServerStats, VirtualServerStats } from '../../state/server-stats.ts';

export interface ServiceMetricsOptions {
  readonly kernel: Pick<Kernel, 'getVirtualServerStats' | 'getRealServerStats'>;
  readonly plan: () => Pick<NodePlan, 'services'>;
  /** Maximum number of Services with metrics; 0 disables the metrics. */
  readonly limit: number;
  /** Whether to include metrics of each real server. */
  readonly realServers: boolean;
  readonly log: Log;
}

/** One port of one Service, with the virtual servers that it has now. */
interface PlannedPort {
  readonly namespace: string;
  readonly service: string;
  readonly portName: string;
  readonly protocol: string;
  readonly ids: VirtualServerId[];
}

interface RealServersRead {
  readonly realServers: ReadonlyMap<VirtualServerKey, readonly RealServerStats[]>;
  readonly byPort: ReadonlyMap<string, readonly RealServerTraffic[]>;
}

/**
 * Traffic per Service, read from the kernel only when metrics are scraped. A Service port has several virtual servers
 * (cluster IP, node ports, ...); their traffic is summed.
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
    this.#notice = new LogOnChange(options.log, 'per-service metrics available again');
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
      this.#notice.say(`per-service metrics disabled: more than ${limit} services (--service-metrics-limit)`);
      return [];
    }
    try {
      const stats = await kernel.getVirtualServerStats();
      const ids = [...ports.values()].flatMap((port) => port.ids).filter((id) => stats.has(virtualServerKey(id)));
      const found = await this.#readRealServers(ports, ids);
      const traffic = await new Yielder().finish(this.#count(ports, stats, found));
      this.#notice.end();
      return traffic;
    } catch (error) {
      this.#notice.say(`failed to read per-service metrics: ${errorText(error)}`);
      return [];
    }
  }

  /** The caller may pause at each `yield`. */
  *#count(
    ports: ReadonlyMap<string, PlannedPort>,
    stats: ReadonlyMap<VirtualServerKey, VirtualServerStats>,
    { realServers, byPort }: RealServersRead,
  ): Generator<void, ServicePortTraffic[], undefined> {
    yield* this.#accounts.count(readingsOf(ports, stats), (virtualServer) => !stats.has(virtualServer));
    const traffic: ServicePortTraffic[] = [];
    for (const [key, { ids, ...port }] of ports) {
      const servers = ids.flatMap((id) => realServers.get(virtualServerKey(id)) ?? []);
      traffic.push({
        ...port,
        ...this.#accounts.total(key),
        activeConnections: servers.reduce((sum, { activeConnections }) => sum + activeConnections, 0),
        inactiveConnections: servers.reduce((sum, { inactiveConnections }) => sum + inactiveConnections, 0),
        realServers: byPort.get(key) ?? [],
      });
      yield;
    }
    return traffic;
  }

  /** Reads the real servers of these virtual servers and, if requested, their traffic by port. */
  async #readRealServers(
    ports: ReadonlyMap<string, PlannedPort>,
    ids: readonly VirtualServerId[],
  ): Promise<RealServersRead> {
    const realServers = await this.#options.kernel.getRealServerStats(ids);
    if (this.#realServers === undefined) return { realServers, byPort: new Map() };
    return { realServers, byPort: await new Yielder().finish(this.#realServers.count(ports, realServers)) };
  }

  /** Returns the Service ports with virtual servers; undefined if there are more Services than the limit. */
  #ports(): Map<string, PlannedPort> | undefined {
    const { limit, plan } = this.#options;
    const ports = new Map<string, PlannedPort>();
    let services = 0;
    for (const { service, virtualServers } of plan().services()) {
      if (++services > limit) return undefined;
      const { namespace, name } = splitName(service);
      for (const { virtualServer: id, portName } of virtualServers) {
        const key = `${service} ${portName} ${id.protocol}`;
        const port = ports.get(key);
        if (port === undefined) {
          ports.set(key, { namespace, service: name, portName, protocol: id.protocol, ids: [id] });
        } else {
          port.ids.push(id);
        }
      }
    }
    return ports;
  }
}

function* readingsOf(
  ports: ReadonlyMap<string, PlannedPort>,
  stats: ReadonlyMap<VirtualServerKey, VirtualServerStats>,
): Readings {
  for (const [port, { ids }] of ports) {
    const reading = new Map<VirtualServerKey, VirtualServerStats>();
    for (const key of ids.map(virtualServerKey)) {
      const now = stats.get(key);
      if (now !== undefined) reading.set(key, now);
    }
    yield [port, reading];
  }
}
