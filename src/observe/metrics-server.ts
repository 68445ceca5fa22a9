import type { IncomingMessage, ServerResponse } from 'node:http';
import { Session } from 'node:inspector/promises';
import { pipeline } from 'node:stream/promises';
import { setTimeout } from 'node:timers/promises';
import { getHeapSnapshot } from 'node:v8';
import RegistryClass from 'prom-client/lib/registry.js';
import type { ProxyMode } from '../base/proxy-mode.ts';
import { type HttpHandler, answer, answerPieces, answerText, pathOf, queryOf } from './http-listener.ts';
import { HttpServer, type HttpServerOptions } from './http-server.ts';
import { acceptsGzip, gzipped } from './gzip.ts';
import type { ProxyMetrics } from './proxy-metrics.ts';
import type { SliMetrics } from './sli-metrics.ts';
import { flagzPage, statuszPage } from './z-pages.ts';

export interface MetricsServerOptions extends Omit<HttpServerOptions, 'name' | 'handler'> {
  /** Content of /proxyMode. */
  readonly mode: ProxyMode;
  readonly metrics: Pick<ProxyMetrics, 'expose'>;
  readonly slis: Pick<SliMetrics, 'expose'>;
  /** Content of /configz, to be encoded as JSON. */
  readonly configz: () => unknown;
  /** Flags listed on /flagz, each as "name=value"; undefined disables the page. */
  readonly flagz: (() => readonly string[]) | undefined;
  readonly statusz: boolean;
  /** Whether to serve the paths below /debug/. */
  readonly profiling: boolean;
  /** Called on a PUT to /debug/flags/v. */
  readonly setVerbosity: (level: number) => void;
}

type Routes = Readonly<Record<string, HttpHandler>>;

/** Sends a snapshot of the whole heap, secrets included, in the format that Chrome's DevTools open. */
async function sendHeap(response: ServerResponse): Promise<void> {
  response.writeHead(200, {
    'Content-Type': 'application/json',
    'Content-Disposition': 'attachment; filename="kube-ipvs-proxy.heapsnapshot"',
  });
  await pipeline(getHeapSnapshot(), response);
}

const LONGEST_PROFILE_SECONDS = 60;

/** Sends a CPU profile in the format that Chrome's DevTools open. */
async function sendCpuProfile(request: IncomingMessage, response: ServerResponse): Promise<void> {
  const seconds = Number(queryOf(request).get('seconds') ?? '10');
  if (!(seconds > 0)) return answerText(response, 400, 'seconds must be a number above 0\n');
  const session = new Session();
  session.connect();
  try {
    await session.post('Profiler.enable');
    await session.post('Profiler.start');
    await setTimeout(Math.min(Math.max(seconds, 1), LONGEST_PROFILE_SECONDS) * 1000, undefined, { ref: false });
    const { profile } = await session.post('Profiler.stop');
    return answer(response, 200, 'application/json', JSON.stringify(profile));
  } finally {
    session.disconnect();
  }
}

/** Handles /debug/flags/v as kube-proxy does: expects a PUT with the level as its body. */
async function changeVerbosity(
  request: IncomingMessage,
  response: ServerResponse,
  setVerbosity: (level: number) => void,
): Promise<void> {
  if (request.method !== 'PUT') {
    answerText(response, 405, 'use PUT with a verbosity level as the body\n');
    return;
  }
  let body = '';
  for await (const chunk of request) {
    body += String(chunk);
    if (body.length > 16) break;
  }
  if (!/^\d{1,9}\s*$/.test(body)) {
    answerText(response, 400, 'the body must be a verbosity level such as 4\n');
    return;
  }
  setVerbosity(Number(body));
  answerText(response, 200, `the verbosity is ${Number(body)}\n`);
}

function debugRoutes({ setVerbosity }: MetricsServerOptions): Routes {
  let isProfiling = false;
  return {
    '/debug/heap': (_request, response) => sendHeap(response),
    '/debug/cpu': async (request, response) => {
      if (isProfiling) return answerText(response, 503, 'another profile is being taken\n');
      isProfiling = true;
      return await sendCpuProfile(request, response).finally(() => (isProfiling = false));
    },
    '/debug/flags/v': (request, response) => changeVerbosity(request, response, setVerbosity),
  };
}

/** Serves a page that Prometheus can scrape. */
function exposing(page: Pick<ProxyMetrics, 'expose'>): HttpHandler {
  const headers = { 'Content-Type': RegistryClass.PROMETHEUS_CONTENT_TYPE, Vary: 'Accept-Encoding' };
  return async ({ headers: { 'accept-encoding': accepted = '' } }, response) => {
    const pieces = await page.expose();
    if (!acceptsGzip(String(accepted))) return answerPieces(response, 200, headers, pieces);
    return answerPieces(response, 200, { ...headers, 'Content-Encoding': 'gzip' }, [await gzipped(pieces)]);
  };
}

function routes(options: MetricsServerOptions): Routes {
  const { metrics, mode, slis, configz, flagz, statusz, profiling } = options;
  const table: Routes = {
    '/metrics': exposing(metrics),
    '/metrics/slis': exposing(slis),
    '/healthz': (_request, response) => answerText(response, 200, 'ok'),
    '/proxyMode': (_request, response) => answerText(response, 200, mode),
    '/configz': (_request, response) => answer(response, 200, 'application/json', JSON.stringify(configz())),
    ...(flagz && { '/flagz': (_request, response) => answerText(response, 200, flagzPage(flagz())) }),
    ...(statusz && { '/statusz': (_request, response) => answerText(response, 200, statuszPage(Object.keys(table))) }),
    ...(profiling && debugRoutes(options)),
  };
  return table;
}

/** The server of --metrics-bind-address. */
export function metricsServer(options: MetricsServerOptions): HttpServer {
  const table = new Map(Object.entries(routes(options)));
  const handler: HttpHandler = (request, response) => {
    const route = table.get(pathOf(request));
    if (route !== undefined) return route(request, response);
    answerText(response, 404, `not found: use one of ${Array.from(table.keys()).join(', ')}\n`);
    return undefined;
  };
  return new HttpServer({ ...options, name: 'metrics server', handler });
}
