import type { Counter, Gauge, Histogram, Registry } from 'prom-client';
import CounterClass from 'prom-client/lib/counter.js';
import GaugeClass from 'prom-client/lib/gauge.js';
import HistogramClass from 'prom-client/lib/histogram.js';
import RegistryClass from 'prom-client/lib/registry.js';
import type { MetricRow, PROXY_METRICS } from './metric-table.ts';

type Instance<R> = R extends { type: 'counter' } ? Counter : R extends { type: 'gauge' } ? Gauge : Histogram;

type Instances<T> = { readonly [K in keyof T]: Instance<T[K]> };

export type MetricSet = Instances<typeof PROXY_METRICS>;

function make(row: MetricRow, registers: [Registry]): Counter | Gauge | Histogram {
  const { type, name, help, labels: labelNames, buckets } = row;
  switch (type) {
    case 'counter':
      return new CounterClass({ name, help, labelNames, registers });
    case 'gauge':
      return new GaugeClass({ name, help, labelNames, registers });
    case 'histogram':
      return new HistogramClass({ name, help, labelNames, registers, buckets: [...(buckets ?? [])] });
  }
}

/** Creates every metric of a table in a new registry. */
export function makeMetrics<T extends Readonly<Record<string, MetricRow>>>(
  table: T,
): { readonly registry: Registry; readonly metrics: Instances<T> } {
  const registry = new RegistryClass();
  const entries = Object.entries(table).map(([key, row]) => [key, make(row, [registry])]);
  return { registry, metrics: Object.fromEntries(entries) as Instances<T> };
}
