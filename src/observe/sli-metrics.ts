import type { ProxyHealth } from './health.ts';
import { makeMetrics } from './metric-set.ts';
import { SLI_METRICS } from './metric-table.ts';

/** The checks, each of which is also the group of checks (the type) that it makes up. */
const CHECKS = ['livez', 'healthz'] as const;

/** Health as metrics: each exposition asks each check once. */
export class SliMetrics {
  readonly #health: Pick<ProxyHealth, (typeof CHECKS)[number]>;
  readonly #now: () => number;
  readonly #made = makeMetrics(SLI_METRICS);

  /** @param now milliseconds since 1970 */
  constructor(health: Pick<ProxyHealth, (typeof CHECKS)[number]>, now: () => number) {
    this.#health = health;
    this.#now = now;
    for (const name of CHECKS) {
      for (const status of ['success', 'error']) this.#made.metrics.healthchecks.inc({ name, type: name, status }, 0);
    }
  }

  get contentType(): string {
    return this.#made.registry.contentType;
  }

  /** The Prometheus text format. */
  async expose(): Promise<readonly Buffer[]> {
    const { registry, metrics } = this.#made;
    for (const name of CHECKS) {
      const good = this.#health[name](this.#now()).status === 200;
      metrics.healthcheck.set({ name, type: name }, good ? 1 : 0);
      metrics.healthchecks.inc({ name, type: name, status: good ? 'success' : 'error' });
    }
    return [Buffer.from(await registry.metrics())];
  }
}
