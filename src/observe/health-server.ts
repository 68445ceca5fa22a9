import { type HttpHandler, answer, answerText, pathOf } from './http-listener.ts';
import { HttpServer, type HttpServerOptions } from './http-server.ts';
import type { HealthClock, ProxyHealth } from './health.ts';
import type { ProxyMetrics } from './proxy-metrics.ts';

export interface HealthServerOptions extends Omit<HttpServerOptions, 'name' | 'handler'> {
  readonly health: Pick<ProxyHealth, 'healthz' | 'livez'>;
  readonly metrics: Pick<ProxyMetrics, 'probeAnswered'>;
  readonly clock: HealthClock;
}

function handler({ health, metrics, clock }: HealthServerOptions): HttpHandler {
  return (request, response) => {
    const probe = pathOf(request).slice(1);
    if (probe !== 'healthz' && probe !== 'livez') {
      answerText(response, 404, 'not found: use /healthz or /livez\n');
      return;
    }
    const { status, body } = health[probe](clock);
    metrics.probeAnswered(probe, status);
    answer(response, status, 'application/json', body);
  };
}

/** The server of --healthz-bind-address: /healthz for load balancers, /livez for the kubelet; any method. */
export function healthServer(options: HealthServerOptions): HttpServer {
  return new HttpServer({ ...options, name: 'health server', handler: handler(options) });
}
