import { type MetricRow, REAL_SERVER_METRICS, SERVICE_METRICS } from './metric-table.ts';

/** Counters since it was first seen, which never go down, and connections that there are now. */
export interface Traffic {
  readonly connections: number;
  readonly incomingPackets: number;
  readonly outgoingPackets: number;
  readonly incomingBytes: number;
  readonly outgoingBytes: number;
  readonly activeConnections: number;
  readonly inactiveConnections: number;
}

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
  /** Empty where nobody wants them one by one. */
  readonly realServers: readonly RealServerTraffic[];
}

/** A metric, and what of the traffic it is. */
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

/** One of those that are counted, with its labels as they stand in a line. */
interface Counted {
  readonly labels: string;
  readonly traffic: Traffic;
}

/**
 * Their metrics in the Prometheus text format, an empty line before each. Not by way of the metrics library: it would keep all of the
 * tens of thousands of series from one scrape to the next, and needs ten times as long.
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

/** Of a label's value. */
function escape(value: string): string {
  if (!/[\\"\n]/.test(value)) return value;
  return value.replaceAll('\\', '\\\\').replaceAll('\n', '\\n').replaceAll('"', '\\"');
}
