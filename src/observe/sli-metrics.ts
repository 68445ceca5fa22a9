import type { HealthClock, ProxyHealth } from './health.ts';
import { makeMetrics } from './metric-set.ts';
import { SLI_METRICS } from './metric-table.ts';

/** The checks. The labels `name` and `type` have the same value. */
const CHECKS = ['livez', 'healthz'] as const;

/** Serves health as metrics. Each scrape runs each check once. */
export class SliMetrics {
  readonly #health: Pick<ProxyHealth, (typeof CHECKS)[number]>;
  readonly #clock: HealthClock;
  readonly #made = makeMetrics(SLI_METRICS);

  constructor(health: Pick<ProxyHealth, (typeof CHECKS)[number]>, clock: HealthClock) {
    this.#health = health;
    this.#clock = clock;
    const { kubernetes_healthchecks_total: results } = this.#made.metrics;
    for (const name of CHECKS) {
      for (const status of ['success', 'error']) results.inc({ name, type: name, status }, 0);
    }
  }

  /** Returns the metrics in the Prometheus text format, as UTF-8. */
  async expose(): Promise<readonly Buffer[]> {
    const { registry, metrics } = this.#made;
    for (const name of CHECKS) {
      const good = this.#health[name](this.#clock).status === 200;
      metrics.kubernetes_healthcheck.set({ name, type: name }, good ? 1 : 0);
      metrics.kubernetes_healthchecks_total.inc({ name, type: name, status: good ? 'success' : 'error' });
    }
    return [Buffer.from(await registry.metrics())];
  }
}
