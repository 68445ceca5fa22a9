import type { Log } from '../../observe/log.ts';
import type { RealServerTraffic } from '../../observe/service-traffic.ts';
import { formatRealServer } from '../../state/real-server.ts';
import { type VirtualServerId, type VirtualServerKey, virtualServerKey } from '../../state/virtual-server.ts';
import { LogOnChange } from '../../observe/log-on-change.ts';
import { type Readings, TrafficAccounts } from './traffic-accounts.ts';
import type { RealServerStats, VirtualServerStats } from '../../state/server-stats.ts';

/** The limit on real servers is this times the limit on Services. Each real server adds seven series to a scrape. */
const REAL_SERVERS_PER_SERVICE = 10;

/** One real server of one Service port, with its counters in each virtual server of the port. */
interface Endpoint {
  readonly port: string;
  readonly realServer: string;
  readonly readings: Map<VirtualServerKey, VirtualServerStats>;
  activeConnections: number;
  inactiveConnections: number;
}

/** Traffic per real server, from the counters that ServiceMetrics reads. */
export class RealServerMetrics {
  readonly #most: number;
  readonly #notice: LogOnChange;
  readonly #accounts = new TrafficAccounts();

  /** @param services maximum number of Services with metrics (--service-metrics-limit) */
  constructor(services: number, log: Log) {
    this.#most = services * REAL_SERVERS_PER_SERVICE;
    this.#notice = new LogOnChange(log, 'per-real-server metrics available again');
  }

  clear(): void {
    this.#accounts.clear();
  }

  /** Returns real servers with traffic, by port; none if there are too many. The caller may pause at each `yield`. */
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
        `per-real-server metrics disabled: more than ${this.#most} real servers, ${REAL_SERVERS_PER_SERVICE} per service of --service-metrics-limit`,
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
