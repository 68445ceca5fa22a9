import type { Log } from '../../observe/log/log.ts';
import { LogOnChange } from '../../observe/log/log-on-change.ts';
import type { RealServerTraffic } from '../../observe/service-traffic.ts';
import { formatRealServer } from '../../state/real-server.ts';
import type { RealServerStats } from '../../state/server-stats.ts';
import { type VirtualServerId, type VirtualServerKey, virtualServerKey } from '../../state/virtual-server.ts';
import { type CounterReading, TrafficAccounts, addConnections, emptyReading } from './traffic-accounts.ts';

/** The limit on real servers is this multiple of the limit on Services. Each real server adds seven series. */
const REAL_SERVERS_PER_SERVICE = 10;

/** One real server of one Service port. */
interface Endpoint extends CounterReading {
  readonly port: string;
  readonly realServer: string;
}

/** Traffic per real server, from the counters that ServiceMetrics reads. */
export class RealServerMetrics {
  readonly #most: number;
  readonly #notice: LogOnChange;
  readonly #accounts = new TrafficAccounts();

  /** @param services maximum number of Services with metrics (--service-metrics-limit) */
  constructor(services: number, log: Log) {
    this.#most = services * REAL_SERVERS_PER_SERVICE;
    this.#notice = new LogOnChange(
      (sentence) => log.warn(sentence),
      () => log.info('per-real-server metrics available again'),
    );
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
    const found = new Map<string, RealServerTraffic[]>();
    if (endpoints.size > this.#most) {
      this.#accounts.clear();
      this.#notice.say(
        `per-real-server metrics disabled: more than ${this.#most} real servers, ${REAL_SERVERS_PER_SERVICE} per service of --service-metrics-limit`,
      );
      return found;
    }
    this.#notice.end();
    // A missing real server was deleted with its counters, which restart at zero if it is added again.
    for (const [{ port, realServer }, traffic] of yield* this.#accounts.count(endpoints, () => true)) {
      const servers = found.get(port);
      if (servers === undefined) found.set(port, [{ realServer, ...traffic }]);
      else servers.push({ realServer, ...traffic });
      yield;
    }
    return found;
  }
}

function addReading(
  endpoints: Map<string, Endpoint>,
  port: string,
  virtualServer: VirtualServerKey,
  server: RealServerStats,
): void {
  const realServer = formatRealServer(server);
  const account = `${port} ${realServer}`;
  const endpoint = endpoints.get(account) ?? { port, realServer, ...emptyReading() };
  endpoints.set(account, endpoint);
  endpoint.counters.set(virtualServer, server);
  addConnections(endpoint, server);
}
