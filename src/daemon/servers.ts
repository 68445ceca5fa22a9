import { configz } from '../config/configz.ts';
import { gateEnabled } from '../config/feature-gates.ts';
import { flagz } from '../config/flagz.ts';
import { errorText } from '../config/problem.ts';
import type { ProxyConfig } from '../config/proxy-config.ts';
import type { ProxyHealth } from '../observe/health.ts';
import { healthServer } from '../observe/health-server.ts';
import type { HttpServer } from '../observe/http-server.ts';
import { metricsServer } from '../observe/metrics-server.ts';
import type { ProxyMetrics } from '../observe/proxy-metrics.ts';
import { SliMetrics } from '../observe/sli-metrics.ts';
import type { LogControl } from '../observe/winston-log.ts';
import type { Clock } from '../reconcile/clock.ts';
import type { RefusedServer } from './daemon-events.ts';
import { StartupError } from './startup-error.ts';

/** The servers that the configuration asks for, started; a port that is taken is tried again unless bindAddressHardFail. */
export async function startServers(
  config: ProxyConfig,
  health: ProxyHealth,
  metrics: ProxyMetrics,
  control: LogControl,
  clock: Clock,
  onRefused: (server: RefusedServer, reason: string) => void,
): Promise<readonly HttpServer[]> {
  const shared = { log: control.log.child('http'), hardFail: config.bindAddressHardFail };
  const servers = new Map<RefusedServer, HttpServer>();
  if (config.healthzBind !== undefined) {
    const where = config.healthzBind;
    servers.set('health server', healthServer({ ...shared, where, health, metrics, now: () => clock.now() }));
  }
  if (config.metricsBind !== undefined) {
    const { featureGates, profiling } = config;
    servers.set(
      'metrics server',
      metricsServer({
        ...shared,
        where: config.metricsBind,
        metrics,
        slis: new SliMetrics(health, () => clock.now()),
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
      // One that has its port already must not keep the process alive.
      for (const opened of servers.values()) await opened.close();
      const advice = 'free the port, choose another address, or drop --bind-address-hard-fail';
      throw new StartupError(`${errorText(error)}; ${advice}`, { cause: error });
    }
  }
  return [...servers.values()];
}
