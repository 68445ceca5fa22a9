import { configz } from '../config/configz.ts';
import { errorText } from '../config/problem.ts';
import type { ProxyConfig } from '../config/proxy-config.ts';
import type { ProxyHealth } from '../observe/health.ts';
import { healthServer } from '../observe/health-server.ts';
import type { HttpServer } from '../observe/http-server.ts';
import { metricsServer } from '../observe/metrics-server.ts';
import type { ProxyMetrics } from '../observe/proxy-metrics.ts';
import type { LogControl } from '../observe/winston-log.ts';
import type { Clock } from '../reconcile/clock.ts';
import { StartupError } from './startup-error.ts';

/** The servers that the configuration asks for, started; a port that is taken is tried again unless bindAddressHardFail. */
export async function startServers(
  config: ProxyConfig,
  health: ProxyHealth,
  metrics: ProxyMetrics,
  control: LogControl,
  clock: Clock,
): Promise<readonly HttpServer[]> {
  const shared = { log: control.log.child('http'), hardFail: config.bindAddressHardFail };
  const servers: HttpServer[] = [];
  if (config.healthzBind !== undefined) {
    servers.push(healthServer({ ...shared, where: config.healthzBind, health, metrics, now: () => clock.now() }));
  }
  if (config.metricsBind !== undefined) {
    const { profiling } = config;
    servers.push(
      metricsServer({
        ...shared,
        where: config.metricsBind,
        metrics,
        configz: () => configz(config),
        profiling,
        setVerbosity: (level) => control.setVerbosity(level),
      }),
    );
  }
  try {
    for (const server of servers) await server.start();
  } catch (error) {
    // One that has its port already must not keep the process alive.
    for (const server of servers) await server.close();
    throw new StartupError(
      `${errorText(error)}; free the port, choose another address, or drop --bind-address-hard-fail`,
      {
        cause: error,
      },
    );
  }
  return servers;
}
