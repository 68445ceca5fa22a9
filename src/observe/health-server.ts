import { type HttpHandler, answer, answerText, pathOf } from './http-listener.ts';
import { HttpServer, type HttpServerOptions } from './http-server.ts';
import type { HealthAnswer, ProxyHealth } from './health.ts';

export interface HealthServerOptions extends Omit<HttpServerOptions, 'name' | 'handler'> {
  readonly health: Pick<ProxyHealth, 'healthz' | 'livez'>;
  readonly metrics: { healthzAnswered(code: number): void; livezAnswered(code: number): void };
  /** Milliseconds since 1970. */
  readonly now: () => number;
}

function handler({ health, metrics, now }: HealthServerOptions): HttpHandler {
  return (request, response) => {
    let reply: HealthAnswer;
    switch (pathOf(request)) {
      case '/healthz':
        reply = health.healthz(now());
        metrics.healthzAnswered(reply.status);
        break;
      case '/livez':
        reply = health.livez(now());
        metrics.livezAnswered(reply.status);
        break;
      default:
        answerText(response, 404, 'not found: /healthz and /livez are here\n');
        return;
    }
    answer(response, reply.status, 'application/json', reply.body);
  };
}

/** The server of --healthz-bind-address: /healthz for load balancers, /livez for the kubelet; any method. */
export function healthServer(options: HealthServerOptions): HttpServer {
  const { where, log, hardFail, retryEvery } = options;
  return new HttpServer({
    name: 'health server',
    where,
    log,
    hardFail,
    handler: handler(options),
    ...(retryEvery === undefined ? {} : { retryEvery }),
  });
}
