import { parseLabelSelector } from '../../../../src/base/label-selector.ts';
import { type Resource, ENDPOINT_SLICES, ownNode, servicesWith } from '../../../../src/kube/api/resource.ts';
import type { ObjectMeta } from '../../../../src/kube/objects/objects.ts';

export const RESOURCES: Readonly<
  Record<'Service' | 'EndpointSlice' | 'Node', Resource<{ readonly meta: ObjectMeta }>>
> = {
  Service: servicesWith({ measured: parseLabelSelector('app=web') }),
  EndpointSlice: ENDPOINT_SLICES,
  Node: ownNode('node-1'),
};
