import type { Interner } from '../objects/interner.ts';
import type { EndpointSlice, Node, ObjectMeta, Service } from '../objects/objects.ts';
import type { ObjectName } from '../objects/source.ts';
import { LABEL } from '../../base/well-known-labels.ts';
import { ENDPOINT_SLICE } from '../protobuf/endpoint-slice-message.ts';
import { NODE } from '../protobuf/node-message.ts';
import type { ObjectMessage } from '../protobuf/object-meta.ts';
import { SERVICE } from '../protobuf/service-message.ts';
import { type Trimmed, trimEndpointSlice, trimNode } from '../objects/trim-objects.ts';
import { type ServiceSelection, trimService } from '../objects/trim-service.ts';

export interface Selector {
  readonly labelSelector?: string;
  readonly fieldSelector?: string;
}

/** A kind of object to list and watch. */
export interface Resource<T extends { readonly meta: ObjectMeta }> {
  /** Name in RBAC and kubectl. */
  readonly plural: string;
  readonly path: string;
  /** Its table for protobuf, which names its kind. */
  readonly message: ObjectMessage;
  /** In order of preference: if the server refuses a selector, the next one is used. */
  readonly selectors: readonly Selector[];
  trim(value: unknown, interner: Interner): Trimmed<T>;
}

/**
 * kube-proxy's selectors, since 1.36. Whether a Service is headless is a matter of its clusterIP, not of its labels. Slices of
 * other proxies' Services are not excluded: nothing uses them, because their Services are unknown.
 */
const OF_NO_OTHER_PROXY = `!${LABEL.serviceProxyName}`;
const OF_NO_HEADLESS_SERVICE = `!${LABEL.headless}`;

export const SERVICES: Resource<Service> = {
  plural: 'services',
  path: '/api/v1/services',
  message: SERVICE,
  selectors: [
    { labelSelector: OF_NO_OTHER_PROXY, fieldSelector: 'spec.clusterIP!=None' },
    // Fallbacks for servers that cannot select by clusterIP, or by label; model/ drops the extra objects.
    { labelSelector: OF_NO_OTHER_PROXY },
    {},
  ],
  trim: trimService,
};

export function servicesWith(selection: ServiceSelection | undefined): Resource<Service> {
  return { ...SERVICES, trim: (value, interner) => trimService(value, interner, selection) };
}

export const ENDPOINT_SLICES: Resource<EndpointSlice> = {
  plural: 'endpointslices',
  path: '/apis/discovery.k8s.io/v1/endpointslices',
  message: ENDPOINT_SLICE,
  selectors: [{ labelSelector: OF_NO_HEADLESS_SERVICE }, {}],
  trim: trimEndpointSlice,
};

/** Selects one Service with a list request, because our RBAC role allows list but not get. */
export function oneService(
  { namespace, name }: ObjectName,
  selection: ServiceSelection | undefined,
): Resource<Service> {
  const selectors = [{ labelSelector: OF_NO_OTHER_PROXY, fieldSelector: `metadata.name=${name}` }];
  return { ...servicesWith(selection), path: `/api/v1/namespaces/${namespace}/services`, selectors };
}

export function slicesOfService({ namespace, name }: ObjectName): Resource<EndpointSlice> {
  const path = `/apis/discovery.k8s.io/v1/namespaces/${namespace}/endpointslices`;
  return {
    ...ENDPOINT_SLICES,
    path,
    selectors: [{ labelSelector: `${LABEL.serviceName}=${name},${OF_NO_HEADLESS_SERVICE}` }],
  };
}

export function ownNode(nodeName: string): Resource<Node> {
  return {
    plural: 'nodes',
    path: '/api/v1/nodes',
    message: NODE,
    selectors: [{ fieldSelector: `metadata.name=${nodeName}` }],
    trim: trimNode,
  };
}
