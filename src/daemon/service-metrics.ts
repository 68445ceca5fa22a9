import type { Kernel, VirtualServerStats } from '../kernel/kernel.ts';
import type { Cluster } from '../model/cluster.ts';
import type { ServiceDefinition, ServicePortDefinition } from '../model/service-model.ts';
import type { Log } from '../observe/log.ts';
import type { ServicePortTraffic } from '../observe/proxy-metrics.ts';
import type { NodePlan } from '../plan/node-plan.ts';
import { type VirtualServerId, type VirtualServerKey, virtualServerKey } from '../state/virtual-server.ts';

export interface ServiceMetricsOptions {
  readonly kernel: Pick<Kernel, 'getVirtualServerStats' | 'getRealServers'>;
  readonly cluster: Pick<Cluster, 'definition'>;
  readonly plan: () => Pick<NodePlan, 'services' | 'virtualServer'>;
  /** Up to so many services; 0: never. */
  readonly limit: number;
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

/** What a port has carried, and what the kernel last said of each of its virtual servers. */
interface Account {
  total: VirtualServerStats;
  readonly last: Map<VirtualServerKey, VirtualServerStats>;
}

const NOTHING: VirtualServerStats = {
  connections: 0,
  incomingPackets: 0,
  outgoingPackets: 0,
  incomingBytes: 0,
  outgoingBytes: 0,
};

/**
 * Traffic of single Services, read from the kernel when somebody scrapes and never else. A port has several virtual servers (cluster IP,
 * node ports, ...), which come and go, and whose counters begin anew when they do: so what each has carried since it was last looked
 * at is added up here, and a sum never goes down as long as its port is there.
 */
export class ServiceMetrics {
  readonly #options: ServiceMetricsOptions;
  #accounts = new Map<string, Account>();
  #reading: Promise<readonly ServicePortTraffic[]> | undefined;
  #said = '';

  constructor(options: ServiceMetricsOptions) {
    this.#options = options;
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
      this.#say(`per-service metrics are off: there are more services than the ${limit} of --service-metrics-limit`);
      return [];
    }
    try {
      const stats = await kernel.getVirtualServerStats();
      const ids = [...ports.values()].flatMap((port) => port.ids);
      const realServers = await kernel.getRealServers(ids.filter((id) => stats.has(virtualServerKey(id))));
      this.#count(ports, stats);
      this.#say('');
      return Array.from(ports, ([key, { ids: own, ...port }]) => {
        const servers = own.flatMap((id) => realServers.get(virtualServerKey(id)) ?? []);
        return {
          ...port,
          ...(this.#accounts.get(key)?.total ?? NOTHING),
          activeConnections: servers.reduce((sum, { activeConnections }) => sum + activeConnections, 0),
          inactiveConnections: servers.reduce((sum, { inactiveConnections }) => sum + inactiveConnections, 0),
        };
      });
    } catch (error) {
      this.#say(`per-service metrics cannot be read: ${error instanceof Error ? error.message : String(error)}`);
      return [];
    }
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

  /** Ports that are gone are forgotten. */
  #count(ports: ReadonlyMap<string, PlannedPort>, stats: ReadonlyMap<VirtualServerKey, VirtualServerStats>): void {
    const accounts = new Map<string, Account>();
    for (const [key, { ids }] of ports) {
      const account = this.#accounts.get(key) ?? { total: NOTHING, last: new Map() };
      for (const gone of [...account.last.keys()].filter((known) => !stats.has(known))) account.last.delete(gone);
      for (const id of ids) {
        const vs = virtualServerKey(id);
        const now = stats.get(vs);
        if (now === undefined) continue;
        account.total = sum(account.total, now, account.last.get(vs) ?? NOTHING);
        account.last.set(vs, now);
      }
      accounts.set(key, account);
    }
    this.#accounts = accounts;
  }

  /** Once, until it is something else that there is to say. */
  #say(sentence: string): void {
    if (sentence === this.#said) return;
    if (sentence === '') this.#options.log.info('per-service metrics are served again');
    else this.#options.log.warn(sentence);
    this.#said = sentence;
  }
}

/** Which of a Service's ports a virtual server is for: at the Service's own addresses its port, else its node port. */
function portOf(definition: ServiceDefinition, id: VirtualServerId): ServicePortDefinition | undefined {
  const { clusterIps, externalIps, loadBalancerIps, ports } = definition;
  const own = [clusterIps, externalIps, loadBalancerIps].some((addresses) => addresses.includes(id.address));
  return ports.find(({ protocol, port, nodePort }) => protocol === id.protocol && (own ? port : nodePort) === id.port);
}

/** Adds what came since the last look. Any counter that fell says that all began anew. */
function sum(total: VirtualServerStats, now: VirtualServerStats, last: VirtualServerStats): VirtualServerStats {
  const fields = Object.keys(NOTHING) as (keyof VirtualServerStats)[];
  const since = fields.some((field) => now[field] < last[field]) ? NOTHING : last;
  return {
    connections: total.connections + now.connections - since.connections,
    incomingPackets: total.incomingPackets + now.incomingPackets - since.incomingPackets,
    outgoingPackets: total.outgoingPackets + now.outgoingPackets - since.outgoingPackets,
    incomingBytes: total.incomingBytes + now.incomingBytes - since.incomingBytes,
    outgoingBytes: total.outgoingBytes + now.outgoingBytes - since.outgoingBytes,
  };
}
