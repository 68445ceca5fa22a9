import { type Case, type ClusterObject, type Objects, type SliceObject, type Step, keyOf, nameOf } from './case.ts';

/**
 * The case without endpoints of which the order of EndpointSlices decides which one counts: a Service has an address once
 * as an endpoint that terminates, and once as one that does not. Upstream's choice among others is by chance, and one more
 * endpoint changes what becomes of every packet to the Service.
 */
export function withoutRivals(given: Case): Case {
  const objects: Objects = new Map();
  const steps = given.steps.map((step): Step => {
    for (const name of step.remove) objects.delete(keyOf(name));
    const apply = step.apply.map((object): ClusterObject => {
      const single = object.kind === 'EndpointSlice' ? withoutRivalsIn(object, objects) : object;
      objects.set(keyOf(nameOf(single)), single);
      return single;
    });
    return { ...step, apply };
  });
  return { ...given, steps };
}

const SERVICE = 'kubernetes.io/service-name';

function withoutRivalsIn(slice: SliceObject, objects: Objects): SliceObject {
  const { namespace, name, labels } = slice.metadata;
  const taken = new Set<string>();
  for (const other of objects.values()) {
    const isOfService =
      other.metadata.labels?.[SERVICE] === labels?.[SERVICE] && other.metadata.namespace === namespace;
    if (other.kind !== 'EndpointSlice' || !isOfService || other.metadata.name === name) continue;
    for (const endpoint of other.endpoints) taken.add(placeOf(endpoint));
  }
  const endpoints = slice.endpoints.filter((endpoint) => {
    const place = placeOf(endpoint);
    const isFirst = !taken.has(place);
    taken.add(place);
    return isFirst;
  });
  return { ...slice, endpoints };
}

function placeOf({ addresses, conditions }: SliceObject['endpoints'][number]): string {
  return `${addresses[0] ?? ''} ${conditions.terminating ?? false}`;
}
