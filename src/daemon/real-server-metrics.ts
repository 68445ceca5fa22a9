import type { RealServerStats, VirtualServerStats } from '../kernel/kernel.ts';
import type { Log } from '../observe/log.ts';
import type { RealServerTraffic } from '../observe/service-traffic.ts';
import { formatRealServer } from '../state/real-server.ts';
import { type VirtualServerId, type VirtualServerKey, virtualServerKey } from '../state/virtual-server.ts';
import { StandingNotice } from './standing-notice.ts';
import { type Readings, TrafficAccounts } from './traffic-accounts.ts';

/** For each Service of the limit; a scrape has seven series for each. */
const REAL_SERVERS_PER_SERVICE = 10;

/** One real server of one port, in all the virtual servers of the port that have it. */
interface Endpoint {
  readonly port: string;
  readonly realServer: string;
  readonly readings: Map<VirtualServerKey, VirtualServerStats>;
  activeConnections: number;
  inactiveConnections: number;
}

/** Traffic of single real servers, as ServiceMetrics reads it. */
export class RealServerMetrics {
  readonly #most: number;
  readonly #notice: StandingNotice;
  readonly #accounts = new TrafficAccounts();

  /** @param services up to how many Services there are metrics */
  constructor(services: number, log: Log) {
    this.#most = services * REAL_SERVERS_PER_SERVICE;
    this.#notice = new StandingNotice(log, 'metrics of single real servers are served again');
  }

  clear(): void {
    this.#accounts.clear();
  }

  /** By port: those of its virtual servers. None at all when there are too many. May be cut at each `yield`. */
  *count(
    ports: ReadonlyMap<string, { readonly ids: readonly VirtualServerId[] }>,
    stats: ReadonlyMap<VirtualServerKey, readonly RealServerStats[]>,
  ): Generator<void, ReadonlyMap<string, readonly RealServerTraffic[]>, undefined> {
    const endpoints = new Map<string, Endpoint>();
    for (const [port, { ids }] of ports) {
      for (const key of ids.map(virtualServerKey)) {
        for (const server of stats.get(key) ?? []) addReading(endpoints, port, key, server);
        yield;
      }
    }
    if (endpoints.size > this.#most) {
      this.#accounts.clear();
      this.#notice.say(
        `metrics of single real servers are off: there are more than ${this.#most}, ${REAL_SERVERS_PER_SERVICE} for each service of --service-metrics-limit`,
      );
      return new Map();
    }
    this.#notice.end();
    // A real server that was deleted has new counters when it is added again.
    yield* this.#accounts.count(readingsOf(endpoints), () => true);
    const found = new Map<string, RealServerTraffic[]>();
    for (const [account, { port, realServer, activeConnections, inactiveConnections }] of endpoints) {
      const traffic = { realServer, ...this.#accounts.total(account), activeConnections, inactiveConnections };
      const servers = found.get(port);
      if (servers === undefined) found.set(port, [traffic]);
      else servers.push(traffic);
      yield;
    }
    return found;
  }
}

function* readingsOf(endpoints: ReadonlyMap<string, Endpoint>): Readings {
  for (const [account, { readings }] of endpoints) yield [account, readings];
}

function addReading(
  endpoints: Map<string, Endpoint>,
  port: string,
  virtualServer: VirtualServerKey,
  server: RealServerStats,
): void {
  const realServer = formatRealServer(server);
  const account = `${port} ${realServer}`;
  let endpoint = endpoints.get(account);
  if (endpoint === undefined) {
    endpoint = { port, realServer, readings: new Map(), activeConnections: 0, inactiveConnections: 0 };
    endpoints.set(account, endpoint);
  }
  endpoint.readings.set(virtualServer, server);
  endpoint.activeConnections += server.activeConnections;
  endpoint.inactiveConnections += server.inactiveConnections;
}
