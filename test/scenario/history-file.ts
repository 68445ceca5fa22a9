import { dump } from 'js-yaml';
import type { EndpointSlice, Service } from '../../src/kube/objects/objects.ts';
import type { SourceEvent } from '../../src/kube/objects/source.ts';

/** A random history as the text of a scenario file: a step for each change, to be kept once its tables are written. */
export function historyAsScenario(events: readonly SourceEvent[]): string {
  const steps = events.map((event, index) => {
    const heading = index === 0 ? '-- objects --' : `-- step: change ${index} --`;
    return `${heading}\n${dump(documentOf(event))}`;
  });
  return `# Found by a property test: say here which rule it broke.\n${steps.join('')}`;
}

function documentOf({ kind, event }: SourceEvent): unknown {
  if (event.type === 'replaced') throw new Error('a history has single changes only');
  if (event.type === 'deleted') {
    return {
      delete: `${kind === 'service' ? 'Service' : 'EndpointSlice'} ${event.object.namespace}/${event.object.name}`,
    };
  }
  if (kind === 'service') return serviceDocument(event.object);
  if (kind === 'endpoint-slice') return sliceDocument(event.object);
  throw new Error('a history has no nodes');
}

function metadata({ namespace, name, labels }: Service['meta']): object {
  return { namespace, name, ...(Object.keys(labels).length === 0 ? {} : { labels }) };
}

function serviceDocument(service: Service): object {
  const { meta, loadBalancerIngress, affinityTimeoutSeconds, ...spec } = service;
  const timeout = { sessionAffinityConfig: { clientIP: { timeoutSeconds: affinityTimeoutSeconds } } };
  return {
    apiVersion: 'v1',
    kind: 'Service',
    metadata: metadata(meta),
    spec: { ...spec, ...(affinityTimeoutSeconds === undefined ? {} : timeout) },
    ...(loadBalancerIngress.length === 0 ? {} : { status: { loadBalancer: { ingress: loadBalancerIngress } } }),
  };
}

function sliceDocument({ meta, addressType, endpoints, ports }: EndpointSlice): object {
  return {
    apiVersion: 'discovery.k8s.io/v1',
    kind: 'EndpointSlice',
    metadata: metadata(meta),
    addressType,
    ports,
    endpoints: endpoints.map(({ address, nodeName, ready, serving, terminating }) => ({
      addresses: [address],
      ...(nodeName === '' ? {} : { nodeName }),
      conditions: { ready, serving, terminating },
    })),
  };
}
