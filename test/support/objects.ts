import type {
  Endpoint,
  EndpointSlice,
  Node,
  ObjectMeta,
  Service,
  ServicePort,
} from '../../src/kube/objects/objects.ts';
import type { SourceEvent } from '../../src/kube/objects/source.ts';

/** Builders of API objects with defaults: a test gives only the fields that matter to it. */
export function meta(name: string, change: Partial<ObjectMeta> = {}): ObjectMeta {
  return {
    namespace: 'default',
    name,
    resourceVersion: '1',
    labels: {},
    annotations: {},
    ...change,
  };
}

export function port(number: number, change: Partial<ServicePort> = {}): ServicePort {
  return { name: '', protocol: 'TCP', port: number, nodePort: 0, ...change };
}

export function service(name: string, clusterIP: string, change: Partial<Service> = {}): Service {
  return {
    meta: meta(name),
    type: 'ClusterIP',
    clusterIP,
    clusterIPs: [clusterIP],
    ipFamilies: [clusterIP.includes(':') ? 'IPv6' : 'IPv4'],
    externalIPs: [],
    ports: [port(80)],
    sessionAffinity: 'None',
    internalTrafficPolicy: 'Cluster',
    externalTrafficPolicy: 'Cluster',
    healthCheckNodePort: 0,
    loadBalancerSourceRanges: [],
    loadBalancerIngress: [],
    ...change,
  };
}

export function endpoint(address: string, change: Partial<Endpoint> = {}): Endpoint {
  const conditions = { ready: true, serving: true, terminating: false };
  return { address, nodeName: '', zone: '', ...conditions, ownPod: false, hintZones: [], hintNodes: [], ...change };
}

/** Returns an EndpointSlice `<service>-<suffix>` with one port. */
export function slice(
  ofService: string,
  endpoints: readonly (string | Endpoint)[],
  change: Partial<EndpointSlice> & { readonly suffix?: string } = {},
): EndpointSlice {
  const { suffix = 'a', ...rest } = change;
  const list = endpoints.map((item) => (typeof item === 'string' ? endpoint(item) : item));
  return {
    meta: meta(`${ofService}-${suffix}`, { labels: { 'kubernetes.io/service-name': ofService } }),
    addressType: list[0]?.address.includes(':') === true ? 'IPv6' : 'IPv4',
    endpoints: list,
    ports: [{ name: '', protocol: 'TCP', port: 8080 }],
    ...rest,
  };
}

export function node(name: string, addresses: readonly string[] = []): Node {
  return {
    meta: meta(name, { namespace: '' }),
    podCIDRs: [],
    taintKeys: [],
    addresses: addresses.map((address) => ({ type: 'InternalIP', address })),
  };
}

/** Returns the initial lists of all three kinds. */
export function listed(services: readonly Service[], slices: readonly EndpointSlice[]): SourceEvent[] {
  return [
    { kind: 'node', event: { type: 'replaced', objects: [node('node-a', ['192.168.9.1'])] } },
    { kind: 'service', event: { type: 'replaced', objects: services } },
    { kind: 'endpoint-slice', event: { type: 'replaced', objects: slices } },
  ];
}
