import type { Counter, Gauge, Histogram, Registry } from 'prom-client';
import CounterClass from 'prom-client/lib/counter.js';
import GaugeClass from 'prom-client/lib/gauge.js';
import HistogramClass from 'prom-client/lib/histogram.js';
import RegistryClass from 'prom-client/lib/registry.js';
import type { ProxyMode } from '../base/proxy-mode.ts';
import type { MetricRow } from './metric-table.ts';

interface Classes<L extends string> {
  readonly counter: Counter<L>;
  readonly gauge: Gauge<L>;
  readonly histogram: Histogram<L>;
}

/** The metrics of a table by name; the compiler checks their labels. */
export type MetricSet<T extends Readonly<Record<string, MetricRow>>> = {
  readonly [K in keyof T]: Classes<T[K]['labels'][number]>[T[K]['type']];
};

const CLASSES = { counter: CounterClass, gauge: GaugeClass, histogram: HistogramClass };

/** Creates every metric of a table. A new registry has those that are served in this mode. */
export function makeMetrics<T extends Readonly<Record<string, MetricRow>>>(
  table: T,
  mode?: ProxyMode,
): { readonly registry: Registry; readonly metrics: MetricSet<T> } {
  const registry = new RegistryClass();
  const entries = Object.entries(table).map(([name, { type, help, labels, buckets, modes }]) => {
    const isServed = mode === undefined || modes === undefined || modes.includes(mode);
    const options = { name, help, labelNames: labels, registers: isServed ? [registry] : [] };
    return [name, new CLASSES[type](buckets === undefined ? options : { ...options, buckets: [...buckets] })];
  });
  return { registry, metrics: Object.fromEntries(entries) as MetricSet<T> };
}

/** Sets a counter without labels to what others have counted since the start of the process. */
export function setTotal(counter: Counter<never>, total: number): void {
  counter.reset();
  counter.inc(total);
}
