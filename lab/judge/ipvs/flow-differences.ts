import type { IntendedDifference, Mismatch } from '../compare.ts';
import { type ClusterObject, type Objects, type SliceObject, keyOf, nameOf, objectsAt } from '../case/case.ts';
import { frontendsOf } from './place.ts';
import { type Frontend, endpointsAt, frontendsAt, hasFamily, isSelectedSlice, selectedSlices } from '../case/served.ts';

const SECTION = 'stale UDP flows';

function isFlow({ fact }: Mismatch): boolean {
  return fact.startsWith('flow ');
}

/** Upstream takes every flow to the number of a node port for one of its own. */
export const otherNodePorts: IntendedDifference = {
  name: 'UDP flow to the number of a NodePort at an address that does not serve it',
  section: SECTION,
  undo: (mismatch) => {
    const { given, step, fact, ours, oursAll } = mismatch;
    if (!isFlow(mismatch) || ours !== undefined) return undefined;
    const [, address = '', number] = /-> \[([^\]]+)\]:(\d+) /.exec(fact) ?? [];
    const host = address.includes(':') ? `[${address}]` : address;
    if (oursAll.get(`virtual server UDP ${host}:${number}`) !== undefined) return undefined;
    const isNumber = frontendsAt(given, step).some((each) => each.kind === 'node port' && `${each.number}` === number);
    return isNumber ? { value: 'deleted' } : undefined;
  },
};

/** What we delete and upstream does not. */
function onlyOurs(
  name: string,
  applies: (mismatch: Mismatch, frontends: readonly Frontend[]) => boolean,
): IntendedDifference {
  return {
    name,
    section: SECTION,
    undo: (mismatch) => {
      if (!isFlow(mismatch) || mismatch.ours !== 'deleted') return undefined;
      return applies(mismatch, frontendsOf(mismatch)) ? { value: undefined } : undefined;
    },
  };
}

export const removedFrontends = onlyOurs(
  'UDP flow to an address and port that a Service had',
  (mismatch, frontends) =>
    frontends.length === 0 && mismatch.step > 0 && frontendsOf(mismatch, mismatch.step - 1).length > 0,
);

export const nodePortWithoutEndpoints = onlyOurs(
  'UDP flow to a NodePort of a Service without a serving endpoint',
  ({ given, step }, frontends) =>
    frontends.some((each) => each.kind === 'node port' && !isServed(objectsAt(given, step), each)),
);

/** Whether a frontend has a serving endpoint. */
function isServed(objects: Objects, { service, port: { name, protocol }, address }: Frontend): boolean {
  return selectedSlices(objects, service).some(
    ({ addressType, ports, endpoints }) =>
      hasFamily(address, addressType) &&
      ports.some((port) => port.name === name && port.protocol === protocol && port.port !== undefined) &&
      endpoints.some(({ conditions }) => conditions.serving !== false),
  );
}

/** Upstream deletes it at each change of any UDP endpoint, and we when the Service gets an endpoint. */
export const unanswered: IntendedDifference = {
  name: 'UDP flow that nobody answers, at the change of another Service',
  section: SECTION,
  undo: (mismatch) => {
    const { given, step, fact, ours } = mismatch;
    const [, to, by] = /-> (\S+) by (\S+)$/.exec(fact) ?? [];
    if (!isFlow(mismatch) || ours !== undefined || to !== by) return undefined;
    const frontends = frontendsOf(mismatch);
    const isWaiting = (at: number): boolean => !frontends.some((each) => isServed(objectsAt(given, at), each));
    return frontends.length > 0 && isWaiting(step - 1) && isWaiting(step) ? { value: 'deleted' } : undefined;
  },
};

export const localPolicy = onlyOurs(
  'UDP flow from outside to an endpoint on another node, with policy Local',
  ({ given, step, fact }, frontends) => {
    const objects = objectsAt(given, step);
    const [, address = '', number] = /by \[([^\]]+)\]:(\d+)$/.exec(fact) ?? [];
    return frontends.some(({ kind, service, port }) => {
      if (kind === 'cluster IP' || service.spec.externalTrafficPolicy !== 'Local') return false;
      const entries = endpointsAt(objects, service, port, { address, number: Number(number) });
      return entries.length > 0 && entries.every(({ nodeName }) => nodeName !== given.node.metadata.name);
    });
  },
);

/** Upstream looks at flows only if a slice changed of a Service with UDP endpoints, in the family of the flow. */
export const noEndpointChange = onlyOurs(
  'UDP flow after a change without UDP endpoints',
  ({ given, step }, frontends) => {
    const [at] = frontends;
    if (at === undefined) return false;
    const inFamily = (objects: Iterable<ClusterObject>): SliceObject[] =>
      [...objects].filter(
        (object) =>
          object.kind === 'EndpointSlice' && isSelectedSlice(object) && hasFamily(at.address, object.addressType),
      ) as SliceObject[];
    const before = objectsAt(given, step - 1);
    const { apply = [], remove = [] } = given.steps[step] ?? {};
    const gone = [...apply.map(nameOf), ...remove].flatMap((name) => before.get(keyOf(name)) ?? []);
    const changed = new Set(inFamily([...apply, ...gone]).map(serviceOf));
    return !inFamily([...before.values(), ...objectsAt(given, step).values()]).some(
      (slice) => changed.has(serviceOf(slice)) && hasUdpEndpoints(slice),
    );
  },
);

function serviceOf({ metadata: { namespace, labels } }: SliceObject): string {
  return `${namespace}/${labels?.['kubernetes.io/service-name']}`;
}

function hasUdpEndpoints({ endpoints, ports }: SliceObject): boolean {
  return endpoints.length > 0 && ports.some(({ protocol, port }) => protocol === 'UDP' && port !== undefined);
}
