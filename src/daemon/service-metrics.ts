import type { Kernel, RealServerStats, VirtualServerStats } from '../kernel/kernel.ts';
import type { Cluster } from '../model/cluster.ts';
import type { ServiceDefinition, ServicePortDefinition } from '../model/service-model.ts';
import { Breather } from '../net/breather.ts';
import type { Log } from '../observe/log.ts';
import type { RealServerTraffic, ServicePortTraffic } from '../observe/service-traffic.ts';
import type { NodePlan } from '../plan/node-plan.ts';
import { type VirtualServerId, type VirtualServerKey, virtualServerKey } from '../state/virtual-server.ts';
import { RealServerMetrics } from './real-server-metrics.ts';
import { StandingNotice } from './standing-notice.ts';
import { type Readings, TrafficAccounts } from './traffic-accounts.ts';

export interface ServiceMetricsOptions {
  readonly kernel: Pick<Kernel, 'getVirtualServerStats' | 'getRealServerStats'>;
  readonly cluster: Pick<Cluster, 'definition'>;
  readonly plan: () => Pick<NodePlan, 'services' | 'virtualServer'>;
  /** Up to so many services; 0: never. */
  readonly limit: number;
  /** Those of their real servers too. */
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
 * Traffic of single Services, read from the kernel when somebody scrapes and never else. A port has several virtual servers (cluster IP,
 * node ports, ...), and its traffic is that of all of them.
 */
export class ServiceMetrics {
  readonly #options: ServiceMetricsOptions;
  readonly #accounts = new TrafficAccounts();
  readonly #realServers: RealServerMetrics | undefined;
  readonly #notice: StandingNotice;
  #reading: Promise<readonly ServicePortTraffic[]> | undefined;

  constructor(options: ServiceMetricsOptions) {
    this.#options = options;
    this.#realServers = options.realServers ? new RealServerMetrics(options.limit, options.log) : undefined;
    this.#notice = new StandingNotice(options.log, 'per-service metrics are served again');
  }

  /** Never rejects: without an answer of the kernel there is nothing to tell. Who asks meanwhile gets the same answer. */
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
      this.#notice.say(
        `per-service metrics are off: there are more services than the ${limit} of --service-metrics-limit`,
      );
      return [];
    }
    try {
      const stats = await kernel.getVirtualServerStats();
      const ids = [...ports.values()].flatMap((port) => port.ids).filter((id) => stats.has(virtualServerKey(id)));
      const found = await this.#readRealServers(ports, ids);
      const traffic = await new Breather().finish(this.#count(ports, stats, found));
      this.#notice.end();
      return traffic;
    } catch (error) {
      this.#notice.say(`per-service metrics cannot be read: ${error instanceof Error ? error.message : String(error)}`);
      return [];
    }
  }

  /** May be cut at each `yield`. */
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

  /** Of these virtual servers, and the traffic of each by port where it is wanted. */
  async #readRealServers(
    ports: ReadonlyMap<string, PlannedPort>,
    ids: readonly VirtualServerId[],
  ): Promise<RealServersRead> {
    const realServers = await this.#options.kernel.getRealServerStats(ids);
    if (this.#realServers === undefined) return { realServers, byPort: new Map() };
    return { realServers, byPort: await new Breather().finish(this.#realServers.count(ports, realServers)) };
  }

  /** The ports that have virtual servers; undefined when there are too many services. */
  #ports(): Map<string, PlannedPort> | undefined {
    const { cluster, limit } = this.#options;
    const plan = this.#options.plan();
    const ports = new Map<string, PlannedPort>();
    let services = 0;
    for (const { service, virtualServers } of plan.services()) {
      if (++services > limit) return undefined;
      const [namespace = '', name = ''] = service.split('/');
      const definition = cluster.definition(service);
      for (const planned of virtualServers) {
        const id = planned.virtualServer;
        // Another service has it.
        if (plan.virtualServer(virtualServerKey(id)) !== planned) continue;
        const portName = definition === undefined ? '' : (portOf(definition, id)?.name ?? '');
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

/** Which of a Service's ports a virtual server is for: at the Service's own addresses its port, else its node port. */
function portOf(definition: ServiceDefinition, id: VirtualServerId): ServicePortDefinition | undefined {
  const { clusterIps, externalIps, loadBalancerIps, ports } = definition;
  const own = [clusterIps, externalIps, loadBalancerIps].some((addresses) => addresses.includes(id.address));
  return ports.find(({ protocol, port, nodePort }) => protocol === id.protocol && (own ? port : nodePort) === id.port);
}
