import { type HttpHandler, answer, answerText, pathOf } from './http-listener.ts';
import { HttpServer, type HttpServerOptions } from './http-server.ts';
import type { HealthAnswer, HealthClock, ProxyHealth } from './health.ts';

export interface HealthServerOptions extends Omit<HttpServerOptions, 'name' | 'handler'> {
  readonly health: Pick<ProxyHealth, 'healthz' | 'livez'>;
  readonly metrics: { healthzAnswered(code: number): void; livezAnswered(code: number): void };
  readonly clock: HealthClock;
}

function handler({ health, metrics, clock }: HealthServerOptions): HttpHandler {
  return (request, response) => {
    let reply: HealthAnswer;
    switch (pathOf(request)) {
      case '/healthz':
        reply = health.healthz(clock);
        metrics.healthzAnswered(reply.status);
        break;
      case '/livez':
        reply = health.livez(clock);
        metrics.livezAnswered(reply.status);
        break;
      default:
        answerText(response, 404, 'not found: use /healthz or /livez\n');
        return;
    }
    answer(response, reply.status, 'application/json', reply.body);
  };
}

/** The server of --healthz-bind-address: /healthz for load balancers, /livez for the kubelet; any method. */
export function healthServer(options: HealthServerOptions): HttpServer {
  return new HttpServer({ ...options, name: 'health server', handler: handler(options) });
}
