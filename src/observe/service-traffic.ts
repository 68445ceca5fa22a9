import { Yielder } from '../base/yielder.ts';
import type { RealServerStats } from '../state/server-stats.ts';
import { OF_REAL_SERVER, OF_SERVICE, TRAFFIC } from './metric-table.ts';

/** Counters since the object was first seen, which never decrease, and its current connections. */
export type Traffic = Omit<RealServerStats, 'address' | 'port'>;

export interface RealServerTraffic extends Traffic {
  /** "ip:port" */
  readonly realServer: string;
}

export interface ServicePortTraffic extends Traffic {
  readonly namespace: string;
  readonly service: string;
  readonly portName: string;
  readonly protocol: string;
  /** Empty unless --service-metrics-real-servers is set. */
  readonly realServers: readonly RealServerTraffic[];
}

/** Characters per buffer; encoding them takes a fraction of a millisecond. */
const BATCH = 64 * 1024;

/** Labels in the text format, and what they label. */
type Labelled = readonly [labels: string, traffic: Traffic];

/**
 * Yields the metrics in the Prometheus text format, each after an empty line. prom-client would keep tens of thousands
 * of series in memory between scrapes and take ten times as long.
 */
export function* trafficText(ports: readonly ServicePortTraffic[]): Generator<string, void, undefined> {
  const ofPorts = ports.map((port): Labelled => [labelsOf(port), port]);
  const ofServers = ofPorts.flatMap(([labels], at) =>
    (ports[at]?.realServers ?? []).map((server): Labelled => [
      `${labels},real_server="${escape(server.realServer)}"`,
      server,
    ]),
  );
  yield* seriesText(OF_SERVICE, ofPorts);
  yield* seriesText(OF_REAL_SERVER, ofServers);
}

function* seriesText(prefix: string, labelled: readonly Labelled[]): Generator<string, void, undefined> {
  for (const [suffix, { help, type, field }] of Object.entries(TRAFFIC)) {
    const name = prefix + suffix;
    yield `\n# HELP ${name} ${help}\n# TYPE ${name} ${type}\n`;
    for (const [labels, traffic] of labelled) yield `${name}{${labels}} ${traffic[field]}\n`;
  }
}

function labelsOf({ namespace, service, portName, protocol }: ServicePortTraffic): string {
  return `namespace="${escape(namespace)}",service="${escape(service)}",port_name="${escape(portName)}",protocol="${escape(protocol)}"`;
}

function escape(value: string): string {
  if (!/[\\"\n]/.test(value)) return value;
  return value.replaceAll('\\', '\\\\').replaceAll('\n', '\\n').replaceAll('"', '\\"');
}

/** Returns the text as UTF-8 buffers that several responses can share. Yields to the event loop between buffers. */
export async function textPieces(text: Iterable<string>): Promise<readonly Buffer[]> {
  const yielder = new Yielder();
  const pieces: Buffer[] = [];
  let open = '';
  for (const part of text) {
    open += part;
    if (open.length < BATCH) continue;
    pieces.push(Buffer.from(open));
    open = '';
    await yielder.yieldIfDue();
  }
  pieces.push(Buffer.from(open));
  return pieces;
}
