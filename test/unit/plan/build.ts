import type {
  Endpoint,
  EndpointPort,
  EndpointSlice,
  Node,
  ObjectMeta,
  Service,
} from '../../../src/kube/objects/objects.ts';
import type { ObjectEvent, SourceEvent } from '../../../src/kube/objects/source.ts';
import { Cluster } from '../../../src/model/cluster.ts';
import { type Cidr, parseCidr } from '../../../src/base/cidr.ts';
import { type IpAddress, formatIp, parseIp } from '../../../src/base/ip.ts';
import { namespacedName } from '../../../src/base/service/names.ts';
import type { NodeView, PlanConfig } from '../../../src/plan/plan-config.ts';
import { planService } from '../../../src/plan/service/plan-service.ts';
import type { ServicePlan } from '../../../src/plan/service-plan.ts';
import { type SetRole, setName } from '../../../src/state/set-roles.ts';
import { formatIpSetEntry } from '../../../src/state/ip-set.ts';
import { formatRealServer } from '../../../src/state/real-server.ts';
import { SERVICE_ANNOTATIONS } from '../../../src/base/service/service-annotations.ts';
import { formatVirtualServer } from '../../../src/state/virtual-server.ts';

export const HERE = 'node-a';
export const ELSEWHERE = 'node-b';
export const WEB = namespacedName('default', 'web');

export function ip(text: string): IpAddress {
  const address = parseIp(text);
  if (address === undefined) throw new Error(`no address: ${text}`);
  return address;
}

export function cidr(text: string): Cidr {
  const parsed = parseCidr(text);
  if (parsed === undefined) throw new Error(`no network: ${text}`);
  return parsed;
}

export function meta(fields: Partial<ObjectMeta> = {}): ObjectMeta {
  return { namespace: 'default', name: 'web', resourceVersion: '1', labels: {}, annotations: {}, ...fields };
}

/** default/web at 10.96.0.1, port 80/TCP. */
export function service(fields: Partial<Service> = {}): Service {
  return {
    meta: meta(),
    type: 'ClusterIP',
    clusterIP: '10.96.0.1',
    clusterIPs: fields.clusterIP === undefined ? ['10.96.0.1'] : [fields.clusterIP],
    ipFamilies: [],
    externalIPs: [],
    ports: [{ name: '', protocol: 'TCP', port: 80, nodePort: 0 }],
    sessionAffinity: 'None',
    internalTrafficPolicy: 'Cluster',
    externalTrafficPolicy: 'Cluster',
    healthCheckNodePort: 0,
    loadBalancerSourceRanges: [],
    loadBalancerIngress: [],
    ...fields,
  };
}

/** Named after the address; ready, remote, without hints. */
export function endpoint(address: string, fields: Partial<Endpoint> = {}): Endpoint {
  const conditions = { ready: true, serving: true, terminating: false };
  return {
    address,
    nodeName: ELSEWHERE,
    zone: '',
    ...conditions,
    ownPod: false,
    hintZones: [],
    hintNodes: [],
    ...fields,
  };
}

export const TCP_8080: EndpointPort = { name: '', protocol: 'TCP', port: 8080 };

/** Slice web-1 of default/web, port 8080/TCP. */
export function slice(
  endpoints: readonly (Endpoint | string)[],
  fields: Partial<Omit<EndpointSlice, 'endpoints' | 'meta'>> & {
    readonly name?: string;
    readonly meta?: Partial<ObjectMeta>;
  } = {},
): EndpointSlice {
  const { name = 'web-1', meta: metaFields, ...rest } = fields;
  return {
    addressType: 'IPv4',
    ports: [TCP_8080],
    ...rest,
    meta: meta({ name, labels: { 'kubernetes.io/service-name': 'web' }, ...metaFields }),
    endpoints: endpoints.map((each) => (typeof each === 'string' ? endpoint(each) : each)),
  };
}

export function node(fields: Partial<Node> = {}): Node {
  return {
    meta: meta({ namespace: '', name: HERE }),
    podCIDRs: [],
    taintKeys: [],
    addresses: [{ type: 'InternalIP', address: '192.168.0.10' }],
    ...fields,
  };
}

export function nodeView(fields: Partial<NodeView> = {}): NodeView {
  return {
    zone: '',
    nodeIps: [ip('192.168.0.10'), ip('fd00:10::a')],
    reportedAddresses: [ip('192.168.0.10'), ip('fd00:10::a')],
    interfaceAddresses: ['127.0.0.1', '192.168.0.10', '10.244.0.1', '::1', 'fd00:10::a', 'fe80::1'].map(ip),
    ...fields,
  };
}

export function config(fields: Partial<PlanConfig> = {}): PlanConfig {
  return {
    scheduler: 'rr',
    families: [4, 6],
    nodeName: HERE,
    nodePortAddresses: { primary: false, cidrs: [] },
    masqueradeAll: false,
    masqueradeMark: 0x4000,
    localDetectors: {},
    randomFully: true,
    ...fields,
  };
}

export const applied = {
  service: (object: Service): SourceEvent => ({ kind: 'service', event: { type: 'applied', object } }),
  slice: (object: EndpointSlice): SourceEvent => ({ kind: 'endpoint-slice', event: { type: 'applied', object } }),
  node: (object: Node): SourceEvent => ({ kind: 'node', event: { type: 'applied', object } }),
};

export const deleted = {
  service: (name = 'web'): SourceEvent => ({ kind: 'service', event: remove(name) }),
  slice: (name = 'web-1'): SourceEvent => ({ kind: 'endpoint-slice', event: remove(name) }),
};

function remove(name: string): ObjectEvent<never> {
  return { type: 'deleted', object: { namespace: 'default', name } };
}

export function clusterOf(events: readonly SourceEvent[], nodeName = HERE): Cluster {
  const cluster = new Cluster(nodeName, SERVICE_ANNOTATIONS);
  for (const event of events) cluster.apply(event);
  return cluster;
}

export interface Situation {
  readonly service?: Partial<Service>;
  readonly slices?: readonly EndpointSlice[];
  readonly node?: Partial<NodeView>;
  readonly config?: Partial<PlanConfig>;
}

/** The plan for default/web. */
export function planOf(situation: Situation): ServicePlan {
  const cluster = clusterOf([
    applied.service(service(situation.service)),
    ...(situation.slices ?? []).map((each) => applied.slice(each)),
  ]);
  const model = cluster.service(WEB);
  if (model === undefined) throw new Error('there is no such service');
  return planService(model, nodeView(situation.node), config(situation.config));
}

/** "TCP 10.96.0.1:80 -> 10.244.1.2:8080 10.244.1.3:8080", a line for each virtual server. */
export function servers(plan: ServicePlan): string[] {
  return plan.virtualServers.map(({ virtualServer, realServers }) =>
    [`${formatVirtualServer(virtualServer)} ->`, ...realServers.map(formatRealServer)].join(' '),
  );
}

/** "KUBE-CLUSTER-IP 10.96.0.1,tcp:80", sorted by role; only those of some roles when any are given. */
export function entries(plan: ServicePlan, ...roles: readonly SetRole[]): string[] {
  return plan.entries
    .filter(({ role }) => roles.length === 0 || roles.includes(role))
    .map(({ role, family, entry }) => `${setName(role, family)} ${formatIpSetEntry(entry)}`);
}

export function addresses(plan: ServicePlan): string[] {
  return plan.addresses.map(formatIp);
}

export function reasons(warnings: readonly { readonly reason: string }[]): string[] {
  return warnings.map(({ reason }) => reason);
}
