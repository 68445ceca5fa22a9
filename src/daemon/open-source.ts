import type { ProxyConfig } from '../config/proxy-config.ts';
import { VERSION } from '../config/version.ts';
import { ApiClient, userAgent } from '../kube/api-client.ts';
import { ApiSource } from '../kube/api-source.ts';
import { ManifestSource } from '../kube/manifest-source.ts';
import type { Source } from '../kube/source.ts';
import type { Log } from '../observe/log.ts';
import type { ProxyMetrics } from '../observe/proxy-metrics.ts';
import { StartupError } from './startup-error.ts';

/** Where the objects come from: a directory (--manifests) or the API server. Reads credentials; connects to nothing yet. */
export function openSource(config: ProxyConfig, nodeName: string, metrics: ProxyMetrics, log: Log): Source {
  if (config.manifests !== undefined) {
    return new ManifestSource({ directory: config.manifests, nodeName, log: log.child('manifests') });
  }
  const created = ApiClient.create({
    kubeconfig: config.api.kubeconfig ?? '',
    master: config.api.master ?? '',
    userAgent: userAgent(VERSION),
    onRequest: (request) => metrics.apiRequestFinished(request),
  });
  if (!created.ok) throw new StartupError(created.error);
  return new ApiSource({ client: created.client, nodeName, log: log.child('api') });
}
