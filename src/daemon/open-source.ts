import type { ProxyConfig } from '../config/proxy-config.ts';
import { VERSION } from '../config/version.ts';
import { ApiClient, userAgent } from '../kube/api-client.ts';
import { ApiSource } from '../kube/api-source.ts';
import { EventPoster } from '../kube/event-poster.ts';
import { ManifestSource } from '../kube/manifest-source.ts';
import type { Source } from '../kube/source.ts';
import type { EventSink } from '../observe/events.ts';
import type { Log } from '../observe/log.ts';
import type { ProxyMetrics } from '../observe/proxy-metrics.ts';
import { StartupError } from './startup-error.ts';

/** The way of every pod to the API server. */
const API_SERVICE = { namespace: 'default', name: 'kubernetes' } as const;

export interface OpenedSource {
  readonly source: Source;
  /** Over the network, not a directory. */
  readonly remote: boolean;
  /** Where Events go; a directory of manifests has no place for them. */
  readonly eventSink: EventSink | undefined;
  /** After everything that uses them has ended. */
  close(): void;
}

/** Where the objects come from: a directory (--manifests) or the API server. Reads credentials; connects to nothing yet. */
export function openSource(config: ProxyConfig, nodeName: string, metrics: ProxyMetrics, log: Log): OpenedSource {
  if (config.manifests !== undefined) {
    const source = new ManifestSource({ directory: config.manifests, nodeName, log: log.child('manifests') });
    return { source, remote: false, eventSink: undefined, close: () => undefined };
  }
  const { qps, burst } = config.api;
  const created = ApiClient.create({
    kubeconfig: config.api.kubeconfig ?? '',
    master: config.api.master ?? '',
    userAgent: userAgent(VERSION),
    observer: metrics,
    rateLimit: { qps, burst },
  });
  if (!created.ok) throw new StartupError(created.error);
  const { client } = created;
  return {
    source: new ApiSource({ client, nodeName, first: API_SERVICE, log: log.child('api'), observer: metrics }),
    remote: true,
    eventSink: new EventPoster({ client, nodeName }),
    close: () => client.close(),
  };
}
