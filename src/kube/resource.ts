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

export const ENDPOINT_SLICES: Resource<EndpointSlice> = {
  plural: 'endpointslices',
  path: '/apis/discovery.k8s.io/v1/endpointslices',
  selectors: [{ labelSelector: `!${LABEL.headless},!${LABEL.serviceProxyName}` }],
  trim: trimEndpointSlice,
};

export function ownNode(nodeName: string): Resource<Node> {
  return {
    plural: 'nodes',
    path: '/api/v1/nodes',
    selectors: [{ fieldSelector: `metadata.name=${nodeName}` }],
    trim: trimNode,
  };
}
