import { configz, flagz } from '../../config/configz.ts';
import { gateEnabled } from '../../config/value/feature-gates.ts';
import { errorText } from '../../base/text/error-text.ts';
import type { ProxyConfig } from '../../config/proxy-config.ts';
import type { ProxyHealth } from '../../observe/health.ts';
import { healthServer } from '../../observe/health-server.ts';
import type { HttpServer } from '../../observe/http-server.ts';
import { metricsServer } from '../../observe/metrics-server.ts';
import type { ProxyMetrics } from '../../observe/proxy-metrics.ts';
import { SliMetrics } from '../../observe/sli-metrics.ts';
import type { LogControl } from '../../observe/log/winston-log.ts';
import { SYSTEM_CLOCK as clock } from '../../reconcile/timing/clock.ts';
import type { RefusedServer } from './daemon-events.ts';
import { StartupError } from '../startup/startup-error.ts';

/** Starts the configured servers. Retries if a port is in use, unless bindAddressHardFail is set. */
export async function startServers(
  config: ProxyConfig,
  health: ProxyHealth,
  metrics: ProxyMetrics,
  control: LogControl,
  onRefused: (server: RefusedServer, reason: string) => void,
): Promise<readonly HttpServer[]> {
  const shared = { log: control.log.child('http'), hardFail: config.bindAddressHardFail };
  const { healthzBind, metricsBind, featureGates, profiling } = config;
  const servers = new Map<RefusedServer, HttpServer>();
  if (healthzBind !== undefined) {
    servers.set('health server', healthServer({ ...shared, where: healthzBind, health, metrics, clock }));
  }
  if (metricsBind !== undefined) {
    servers.set(
      'metrics server',
      metricsServer({
        ...shared,
        where: metricsBind,
        mode: config.mode,
        metrics,
        slis: new SliMetrics(health, clock),
        configz: () => configz(config),
        flagz: gateEnabled(featureGates, 'ComponentFlagz') ? () => flagz(config) : undefined,
        statusz: gateEnabled(featureGates, 'ComponentStatusz'),
        profiling,
        setVerbosity: (level) => control.setVerbosity(level),
      }),
    );
  }
  for (const [name, server] of servers) {
    try {
      await server.start();
    } catch (error) {
      onRefused(name, errorText(error));
      // A server that already listens would keep the process alive.
      for (const opened of servers.values()) await opened.close();
      const advice = 'free the port, choose another address, or drop --bind-address-hard-fail';
      throw new StartupError(`${errorText(error)}; ${advice}`, { cause: error });
    }
  }
  return [...servers.values()];
}
