import { Interner } from '../../src/kube/objects/interner.ts';
import type { EndpointSlice, Service } from '../../src/kube/objects/objects.ts';
import type { SourceEvent } from '../../src/kube/objects/source.ts';
import { trimEndpointSlice, trimNode } from '../../src/kube/objects/trim-objects.ts';
import { trimService } from '../../src/kube/objects/trim-service.ts';
import type { JsonObject } from '../../test/apiserver/json-object.ts';

/** How large a cluster, and what every so-many-th service is; 0: none is. */
export interface ClusterShape {
  readonly services: number;
  /** Of each service and family. */
  readonly endpoints: number;
  /** Default: all endpoints of a service and family are in one slice. */
  readonly endpointsOfSlice?: number;
  /** IPv4 and IPv6. */
  readonly dualStackEvery: number;
  /** Type NodePort. At most 22,768 fit into the range. */
  readonly nodePortEvery: number;
  /** UDP instead of TCP. */
  readonly udpEvery: number;
  /** Type LoadBalancer, with an ingress IP and source ranges of each family. */
  readonly loadBalancerEvery?: number;
  /** Of each load balancer and family. Default: 2. */
  readonly sourceRanges?: number;
}

const NODE_PORTS = { first: 20_000, count: 22_768 };
const MAX_SERVICES = 60_000;
const MAX_ENDPOINTS = 500_000;
/** Every address that this module gives to a Service: clusterIp() and those of load balancers. */
export const SERVICE_CIDRS = ['10.202.0.0/15', 'fd00:202::/32', 'fd00:203::/32'] as const;

/** Service default/kubernetes. */
export const KUBERNETES = { address: '10.202.0.1', port: 443, endpoint: '10.200.0.1' } as const;

/** The only node of these clusters. */
export const NODE_NAME = 'node-0';
export const NODE_ADDRESS = '10.200.0.10';

function is(index: number, every: number): boolean {
  return every > 0 && index % every === 0;
}

/** 10.202.1.0 and up; fd00:202::100 and up. */
export function clusterIp(service: number, family: 4 | 6): string {
  const n = service + 256;
  return family === 4 ? `10.202.${n >> 8}.${n & 255}` : `fd00:202::${n.toString(16)}`;
}

/** The ingress IP of a load balancer: 10.203.1.0 and up; fd00:203::100 and up. */
function ingressIp(service: number, family: 4 | 6): string {
  return family === 4
    ? clusterIp(service, 4).replace('10.202.', '10.203.')
    : clusterIp(service, 6).replace(':202:', ':203:');
}

/** Source ranges of a load balancer: the first is the same for all, the others begin with another one for each. */
function sourceRanges(service: number, family: 4 | 6, count = 2): string[] {
  const own = Array.from({ length: count - 1 }, (_, range) => {
    const n = (service + range) & 0xffff;
    return family === 4
      ? `100.${64 + (n >> 12)}.${(n >> 4) & 255}.${(n & 15) << 4}/28`
      : `2001:db8:1:${n.toString(16)}::/64`;
  });
  return [family === 4 ? '192.0.2.0/24' : '2001:db8::/48', ...own];
}

/** One of four million addresses from 10.64.0.0 up, or of fd00:64::/96. */
function podIp(index: number, family: 4 | 6): string {
  return family === 4
    ? `10.${64 + ((index >> 16) & 63)}.${(index >> 8) & 255}.${index & 255}`
    : `fd00:64::${(index >>> 16).toString(16)}:${(index & 0xffff).toString(16)}`;
}

/** The pods of a service as long as it has not grown. */
export function podIps(service: number, endpoints: number, family: 4 | 6): string[] {
  return Array.from({ length: endpoints }, (_, pod) => podIp(service * endpoints + pod, family));
}

/** The pod that a service gets when it grows: above those of all shapes. */
export function growthIp(service: number, family: 4 | 6): string {
  return podIp(3_000_000 + service, family);
}

function families(index: number, shape: ClusterShape): readonly (4 | 6)[] {
  return is(index, shape.dualStackEvery) ? [4, 6] : [4];
}

function protocol(index: number, shape: ClusterShape): string {
  return is(index, shape.udpEvery) ? 'UDP' : 'TCP';
}

function serviceType(index: number, shape: ClusterShape): 'ClusterIP' | 'NodePort' | 'LoadBalancer' {
  if (is(index, shape.loadBalancerEvery ?? 0)) return 'LoadBalancer';
  return is(index, shape.nodePortEvery) ? 'NodePort' : 'ClusterIP';
}

function serviceObject(index: number, shape: ClusterShape): JsonObject {
  const ipFamilies = families(index, shape);
  const clusterIPs = ipFamilies.map((family) => clusterIp(index, family));
  const type = serviceType(index, shape);
  const nodePort = is(index, shape.nodePortEvery)
    ? { nodePort: NODE_PORTS.first + Math.trunc(index / shape.nodePortEvery) }
    : {};
  const ranges = ipFamilies.flatMap((family) => sourceRanges(index, family, shape.sourceRanges));
  const ingress = ipFamilies.map((family) => ({ ip: ingressIp(index, family), ipMode: 'VIP' }));
  return {
    apiVersion: 'v1',
    kind: 'Service',
    metadata: {
      name: `service-${index}`,
      namespace: `team-${index % 100}`,
      labels: { app: `service-${index}`, 'app.kubernetes.io/part-of': 'bench' },
    },
    spec: {
      type,
      clusterIP: clusterIPs[0],
      clusterIPs,
      ipFamilies: clusterIPs.length === 1 ? ['IPv4'] : ['IPv4', 'IPv6'],
      ipFamilyPolicy: clusterIPs.length === 1 ? 'SingleStack' : 'PreferDualStack',
      ports: [{ name: 'web', port: 80, protocol: protocol(index, shape), targetPort: 8080, ...nodePort }],
      selector: { app: `service-${index}` },
      sessionAffinity: 'None',
      internalTrafficPolicy: 'Cluster',
      ...(type === 'ClusterIP' ? {} : { externalTrafficPolicy: 'Cluster' }),
      ...(type === 'LoadBalancer' ? { loadBalancerSourceRanges: ranges } : {}),
    },
    status: { loadBalancer: type === 'LoadBalancer' ? { ingress } : {} },
  };
}

/** The slice that has endpoint `first` and those after it. `endpoints` may differ from the shape's: one more, and the service has grown. */
function sliceObject(
  index: number,
  family: 4 | 6,
  shape: ClusterShape,
  first = 0,
  endpoints: number = shape.endpoints,
): JsonObject {
  const { endpointsOfSlice = Infinity } = shape;
  const pods = Array.from({ length: Math.min(endpoints - first, endpointsOfSlice) }, (_, n) => {
    const pod = first + n;
    const isGrowth = pod >= shape.endpoints;
    return { address: isGrowth ? growthIp(index, family) : podIp(index * shape.endpoints + pod, family), pod };
  });
  const part = endpointsOfSlice === Infinity ? '' : `-${first / endpointsOfSlice}`;
  return {
    apiVersion: 'discovery.k8s.io/v1',
    kind: 'EndpointSlice',
    metadata: {
      name: `service-${index}-ipv${family}${part}`,
      namespace: `team-${index % 100}`,
      labels: {
        'kubernetes.io/service-name': `service-${index}`,
        'endpointslice.kubernetes.io/managed-by': 'endpointslice-controller.k8s.io',
      },
    },
    addressType: `IPv${family}`,
    endpoints: pods.map(({ address, pod }) => ({
      addresses: [address],
      conditions: { ready: true, serving: true, terminating: false },
      nodeName: `node-${pod}`,
      targetRef: { kind: 'Pod', name: `service-${index}-${pod}`, namespace: `team-${index % 100}` },
    })),
    ports: [{ name: 'web', port: 8080, protocol: protocol(index, shape) }],
  };
}

function checkShape({ services, endpoints, nodePortEvery }: ClusterShape): void {
  if (services > MAX_SERVICES) throw new RangeError(`at most ${MAX_SERVICES} services have addresses`);
  if (services * endpoints > MAX_ENDPOINTS) throw new RangeError(`at most ${MAX_ENDPOINTS} endpoints`);
  if (nodePortEvery > 0 && services > nodePortEvery * NODE_PORTS.count) throw new RangeError('not enough node ports');
}

export function* serviceObjects(shape: ClusterShape): IterableIterator<JsonObject> {
  checkShape(shape);
  for (let index = 0; index < shape.services; index++) yield serviceObject(index, shape);
}

export function* sliceObjects(shape: ClusterShape): IterableIterator<JsonObject> {
  const { services, endpoints, endpointsOfSlice = Infinity } = shape;
  for (let index = 0; index < services; index++) {
    for (const family of families(index, shape)) {
      let first = 0;
      do yield sliceObject(index, family, shape, first);
      while ((first += endpointsOfSlice) < endpoints);
    }
  }
}

export function nodeObject(): JsonObject {
  return {
    apiVersion: 'v1',
    kind: 'Node',
    metadata: { name: NODE_NAME, labels: { 'topology.kubernetes.io/zone': 'a' } },
    spec: {},
    status: { addresses: [{ type: 'InternalIP', address: NODE_ADDRESS }] },
  };
}

/** Of all changes, as a daemon has one. */
const interner = new Interner();

/** What the API server would send, as the daemon keeps it. */
export function listedEvents(shape: ClusterShape): SourceEvent[] {
  const services: Service[] = Array.from(serviceObjects(shape), (object) =>
    must(trimService(received(object), interner)),
  );
  const slices = Array.from(sliceObjects(shape), (object) => must(trimEndpointSlice(received(object), interner)));
  return [
    { kind: 'node', event: { type: 'replaced', objects: [must(trimNode(nodeObject(), interner))] } },
    { kind: 'service', event: { type: 'replaced', objects: services } },
    { kind: 'endpoint-slice', event: { type: 'replaced', objects: slices } },
  ];
}

/**
 * The IPv4 slice of service `index` when it has this many endpoints; the shape's are always the first of them. Of several slices,
 * the last one has the difference, so it has to have room for it.
 */
export function scaledSlice(index: number, shape: ClusterShape, endpoints: number): JsonObject {
  const { endpointsOfSlice } = shape;
  const first = endpointsOfSlice === undefined ? 0 : Math.floor(shape.endpoints / endpointsOfSlice) * endpointsOfSlice;
  return sliceObject(index, 4, shape, first, endpoints);
}

/** Service `index` as it is in another shape. */
export function serviceEvent(index: number, shape: ClusterShape): SourceEvent {
  const object: Service = must(trimService(received(serviceObject(index, shape)), interner));
  return { kind: 'service', event: { type: 'applied', object } };
}

/** Service `index` has this many IPv4 endpoints from now on. */
export function scaledEvent(index: number, shape: ClusterShape, endpoints: number): SourceEvent {
  const object: EndpointSlice = must(trimEndpointSlice(scaledSlice(index, shape, endpoints), interner));
  return { kind: 'endpoint-slice', event: { type: 'applied', object } };
}

/** Text from the wire makes other strings in memory than those put together here. */
function received(object: JsonObject): unknown {
  return JSON.parse(JSON.stringify(object));
}

/** What every cluster has: the way to the API server. */
export function kubernetesObjects(): readonly JsonObject[] {
  const metadata = { name: 'kubernetes', namespace: 'default' };
  const clusterIP = KUBERNETES.address;
  return [
    {
      apiVersion: 'v1',
      kind: 'Service',
      metadata,
      spec: {
        type: 'ClusterIP',
        clusterIP,
        clusterIPs: [clusterIP],
        ipFamilies: ['IPv4'],
        ports: [{ name: 'https', port: KUBERNETES.port, protocol: 'TCP' }],
      },
      status: { loadBalancer: {} },
    },
    {
      apiVersion: 'discovery.k8s.io/v1',
      kind: 'EndpointSlice',
      metadata: { ...metadata, labels: { 'kubernetes.io/service-name': 'kubernetes' } },
      addressType: 'IPv4',
      endpoints: [{ addresses: [KUBERNETES.endpoint], conditions: { ready: true } }],
      ports: [{ name: 'https', port: 6443, protocol: 'TCP' }],
    },
  ];
}

function must<T>({ object, reason }: { readonly object: T | undefined; readonly reason?: string | undefined }): T {
  if (object === undefined) throw new Error(`the generated object is of no use: ${reason}`);
  return object;
}
