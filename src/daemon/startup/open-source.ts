import type { ProxyConfig } from '../../config/proxy-config.ts';
import { VERSION } from '../../config/version.ts';
import { ApiClient, type ServerState, userAgent } from '../../kube/api/api-client.ts';
import { ApiSource } from '../../kube/api/api-source.ts';
import { EventPoster } from '../../kube/api/event-poster.ts';
import { ManifestSource } from '../../kube/manifests/manifest-source.ts';
import type { Source } from '../../kube/objects/source.ts';
import type { EventSink } from '../../observe/events.ts';
import type { Log } from '../../observe/log/log.ts';
import type { ProxyMetrics } from '../../observe/proxy-metrics.ts';
import { StartupError } from './startup-error.ts';

/** The Service through which pods reach the API server. */
const API_SERVICE = { namespace: 'default', name: 'kubernetes' } as const;

export interface OpenedSource {
  readonly source: Source;
  /** The API server's URL, or the directory. */
  readonly origin: { readonly apiServer: string } | { readonly manifests: string };
  /** The state of each address of the API server, if it has several. */
  readonly apiServers: () => readonly ServerState[];
  /** Destination of Events; undefined with a directory of manifests. */
  readonly eventSink: EventSink | undefined;
  /** Call after all users of the source and the sink have stopped. */
  close(): void;
}

/** Opens the source of objects: a directory (--manifests) or the API server. Reads credentials but does not connect. */
export function openSource(config: ProxyConfig, nodeName: string, metrics: ProxyMetrics, log: Log): OpenedSource {
  const selection = { measured: config.serviceMetricsSelector, defaults: config.serviceDefaults };
  if (config.manifests !== undefined) {
    const source = new ManifestSource({
      directory: config.manifests,
      nodeName,
      selection,
      log: log.child('manifests'),
    });
    const origin = { manifests: config.manifests };
    return { source, origin, apiServers: () => [], eventSink: undefined, close: () => undefined };
  }
  const { kubeconfig, master, accept, ...rateLimit } = config.api;
  const created = ApiClient.create({
    kubeconfig,
    master,
    masterKubeconfig: config.masterKubeconfig,
    rateLimit,
    accept,
    onJsonOnly: (reason) =>
      log.child('api').warn('API server refuses the content type: JSON is used', { accept, reason }),
    userAgent: userAgent(VERSION),
    observer: metrics,
    onServerChange: ({ from, to, reason }) =>
      log.child('api').warn('API server not reached: another address is tried', { from, to, reason }),
  });
  if (!created.ok) throw new StartupError(created.error);
  const { client } = created;
  return {
    source: new ApiSource({
      client,
      nodeName,
      first: API_SERVICE,
      selection,
      log: log.child('api'),
      observer: metrics,
    }),
    origin: { apiServer: client.servers },
    apiServers: () => client.serverStates(),
    eventSink: new EventPoster({ client, nodeName }),
    close: () => client.close(),
  };
}
