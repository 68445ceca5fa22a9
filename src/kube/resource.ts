import type { Interner } from './interner.ts';
import type { EndpointSlice, Node, ObjectMeta, Service } from './objects.ts';
import { LABEL } from './trim-meta.ts';
import type { Trimmed } from './trim-meta.ts';
import { trimEndpointSlice } from './trim-endpoint-slice.ts';
import { trimNode } from './trim-node.ts';
import { trimService } from './trim-service.ts';

export interface Selector {
  readonly labelSelector?: string;
  readonly fieldSelector?: string;
}

/** One kind of object that we follow. */
export interface Resource<T extends { readonly meta: ObjectMeta }> {
  /** As RBAC and kubectl name it. */
  readonly plural: string;
  readonly path: string;
  /** The best first; the others for servers that refuse it. */
  readonly selectors: readonly Selector[];
  trim(value: unknown, interner: Interner): Trimmed<T>;
}

export const SERVICES: Resource<Service> = {
  plural: 'services',
  path: '/api/v1/services',
  selectors: [
    { labelSelector: `!${LABEL.serviceProxyName}`, fieldSelector: 'spec.clusterIP!=None' },
    // Servers that cannot select by clusterIP; the label is set by the controllers, on most headless Services.
    { labelSelector: `!${LABEL.serviceProxyName},!${LABEL.headless}` },
  ],
  trim: trimService,
};

const OURS = `!${LABEL.headless},!${LABEL.serviceProxyName}`;

export const ENDPOINT_SLICES: Resource<EndpointSlice> = {
  plural: 'endpointslices',
  path: '/apis/discovery.k8s.io/v1/endpointslices',
  selectors: [{ labelSelector: OURS }],
  trim: trimEndpointSlice,
};

/** One Service alone, in a list: who may list all Services may do that, but not get one. */
export function oneService(namespace: string, name: string): Resource<Service> {
  const fieldSelector = `metadata.name=${name}`;
  return { ...SERVICES, path: `/api/v1/namespaces/${namespace}/services`, selectors: [{ fieldSelector }] };
}

/** The EndpointSlices of one Service. */
export function slicesOfService(namespace: string, name: string): Resource<EndpointSlice> {
  const path = `/apis/discovery.k8s.io/v1/namespaces/${namespace}/endpointslices`;
  return { ...ENDPOINT_SLICES, path, selectors: [{ labelSelector: `${LABEL.serviceName}=${name},${OURS}` }] };
}

export function ownNode(nodeName: string): Resource<Node> {
  return {
    plural: 'nodes',
    path: '/api/v1/nodes',
    selectors: [{ fieldSelector: `metadata.name=${nodeName}` }],
    trim: trimNode,
  };
}
