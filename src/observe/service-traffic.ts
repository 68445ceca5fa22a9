import type { MetricSet } from './metric-set.ts';

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

type Labels = Readonly<Record<string, string>>;

/** What is gone leaves no series behind. */
export function setTraffic(metrics: MetricSet, ports: readonly ServicePortTraffic[]): void {
  const setPort = seriesOf(
    [
      [metrics.serviceConnections, 'connections'],
      [metrics.serviceIncomingPackets, 'incomingPackets'],
      [metrics.serviceOutgoingPackets, 'outgoingPackets'],
      [metrics.serviceIncomingBytes, 'incomingBytes'],
      [metrics.serviceOutgoingBytes, 'outgoingBytes'],
    ],
    [
      [metrics.serviceActiveConnections, 'activeConnections'],
      [metrics.serviceInactiveConnections, 'inactiveConnections'],
    ],
  );
  const setRealServer = seriesOf(
    [
      [metrics.realServerConnections, 'connections'],
      [metrics.realServerIncomingPackets, 'incomingPackets'],
      [metrics.realServerOutgoingPackets, 'outgoingPackets'],
      [metrics.realServerIncomingBytes, 'incomingBytes'],
      [metrics.realServerOutgoingBytes, 'outgoingBytes'],
    ],
    [
      [metrics.realServerActiveConnections, 'activeConnections'],
      [metrics.realServerInactiveConnections, 'inactiveConnections'],
    ],
  );
  for (const port of ports) {
    const { namespace, service, portName, protocol } = port;
    const labels = { namespace, service, port_name: portName, protocol };
    setPort(labels, port);
    for (const server of port.realServers) setRealServer({ ...labels, real_server: server.realServer }, server);
  }
}

/** Empties the metrics, and answers how to fill them. */
function seriesOf(
  counters: readonly (readonly [MetricSet['serviceConnections'], keyof Traffic])[],
  gauges: readonly (readonly [MetricSet['serviceActiveConnections'], keyof Traffic])[],
): (labels: Labels, traffic: Traffic) => void {
  for (const [metric] of [...counters, ...gauges]) metric.reset();
  return (labels, traffic) => {
    for (const [metric, field] of counters) metric.inc(labels, traffic[field]);
    for (const [metric, field] of gauges) metric.set(labels, traffic[field]);
  };
}
