import type { RealServerStats } from '../state/server-stats.ts';
import { type MetricRow, REAL_SERVER_METRICS, SERVICE_METRICS } from './metric-table.ts';

/** Counters since the object was first seen, which never decrease, and its current connections. */
export type Traffic = Omit<RealServerStats, 'address' | 'port'>;

/** Traffic of one real server of a port. */
export interface RealServerTraffic extends Traffic {
  /** "ip:port" */
  readonly realServer: string;
}

/** Traffic of one port of one Service. */
export interface ServicePortTraffic extends Traffic {
  readonly namespace: string;
  readonly service: string;
  readonly portName: string;
  readonly protocol: string;
  /** Empty unless --service-metrics-real-servers is set. */
  readonly realServers: readonly RealServerTraffic[];
}

/** A metric and the counter it shows. */
type Series = readonly [MetricRow, keyof Traffic];

const OF_PORTS: readonly Series[] = [
  [SERVICE_METRICS.serviceConnections, 'connections'],
  [SERVICE_METRICS.serviceIncomingPackets, 'incomingPackets'],
  [SERVICE_METRICS.serviceOutgoingPackets, 'outgoingPackets'],
  [SERVICE_METRICS.serviceIncomingBytes, 'incomingBytes'],
  [SERVICE_METRICS.serviceOutgoingBytes, 'outgoingBytes'],
  [SERVICE_METRICS.serviceActiveConnections, 'activeConnections'],
  [SERVICE_METRICS.serviceInactiveConnections, 'inactiveConnections'],
];

const OF_REAL_SERVERS: readonly Series[] = [
  [REAL_SERVER_METRICS.realServerConnections, 'connections'],
  [REAL_SERVER_METRICS.realServerIncomingPackets, 'incomingPackets'],
  [REAL_SERVER_METRICS.realServerOutgoingPackets, 'outgoingPackets'],
  [REAL_SERVER_METRICS.realServerIncomingBytes, 'incomingBytes'],
  [REAL_SERVER_METRICS.realServerOutgoingBytes, 'outgoingBytes'],
  [REAL_SERVER_METRICS.realServerActiveConnections, 'activeConnections'],
  [REAL_SERVER_METRICS.realServerInactiveConnections, 'inactiveConnections'],
];

/** A labelled object; labels in the text format. */
interface Counted {
  readonly labels: string;
  readonly traffic: Traffic;
}

/**
 * Yields the metrics in the Prometheus text format, each after an empty line. prom-client would keep tens of thousands
 * of series in memory between scrapes and take ten times as long.
 */
export function* trafficText(ports: readonly ServicePortTraffic[]): Generator<string, void, undefined> {
  const countedPorts: Counted[] = [];
  const countedServers: Counted[] = [];
  for (const port of ports) {
    const labels = labelsOf(port);
    countedPorts.push({ labels, traffic: port });
    for (const server of port.realServers) {
      countedServers.push({ labels: `${labels},real_server="${escape(server.realServer)}"`, traffic: server });
    }
  }
  yield* seriesText(OF_PORTS, countedPorts);
  yield* seriesText(OF_REAL_SERVERS, countedServers);
}

function* seriesText(all: readonly Series[], counted: readonly Counted[]): Generator<string, void, undefined> {
  for (const [{ name, help, type }, field] of all) {
    yield `\n# HELP ${name} ${help}\n# TYPE ${name} ${type}\n`;
    for (const { labels, traffic } of counted) yield `${name}{${labels}} ${traffic[field]}\n`;
  }
}

function labelsOf({ namespace, service, portName, protocol }: ServicePortTraffic): string {
  return `namespace="${escape(namespace)}",service="${escape(service)}",port_name="${escape(portName)}",protocol="${escape(protocol)}"`;
}

/** Escapes a label value. */
function escape(value: string): string {
  if (!/[\\"\n]/.test(value)) return value;
  return value.replaceAll('\\', '\\\\').replaceAll('\n', '\\n').replaceAll('"', '\\"');
}
