import type { Counter, Gauge, Histogram, Registry } from 'prom-client';
import CounterClass from 'prom-client/lib/counter.js';
import GaugeClass from 'prom-client/lib/gauge.js';
import HistogramClass from 'prom-client/lib/histogram.js';
import RegistryClass from 'prom-client/lib/registry.js';
import { METRICS, type MetricRow } from './metric-table.ts';

type Instance<R> = R extends { type: 'counter' } ? Counter : R extends { type: 'gauge' } ? Gauge : Histogram;

export type MetricSet = { readonly [K in keyof typeof METRICS]: Instance<(typeof METRICS)[K]> };

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

/** Makes every metric of the table in a registry of its own. */
export function makeMetrics(): { readonly registry: Registry; readonly metrics: MetricSet } {
  const registry = new RegistryClass();
  const entries = Object.entries(METRICS).map(([key, row]) => [key, make(row, [registry])]);
  return { registry, metrics: Object.fromEntries(entries) as MetricSet };
}
