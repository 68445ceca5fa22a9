import { isDeepStrictEqual } from 'node:util';
import {
  type Case,
  type EndpointObject,
  type Objects,
  type SliceObject,
  type Step,
  keyOf,
  nameOf,
  objectsAt,
  servicesOf,
  slicesOf,
} from './case.ts';

/**
 * The case with one entry for each address and port of a Service port, the one that we use: see "two endpoints with the same
 * address" in docs/differences.md. Upstream may use any of those that do not terminate. A slice becomes one for each of its
 * ports. Undefined if no address has several entries.
 */
export function withOneEntry(given: Case): Case | undefined {
  let isAmbiguous = false;
  let before: Objects = new Map();
  const steps = given.steps.map(({ flows }, step): Step => {
    const { objects, dropped } = oneEntryEach(objectsAt(given, step), given.node.metadata.name);
    isAmbiguous ||= dropped;
    const apply = [...objects.values()].filter((each) => !isDeepStrictEqual(before.get(keyOf(nameOf(each))), each));
    const remove = [...before].filter(([key]) => !objects.has(key)).map(([, object]) => nameOf(object));
    before = objects;
    return { apply, remove, flows };
  });
  return isAmbiguous ? { ...given, steps } : undefined;
}

function oneEntryEach(given: Objects, nodeName: string): { objects: Objects; dropped: boolean } {
  const objects: Objects = new Map([...given].filter(([, { kind }]) => kind !== 'EndpointSlice'));
  let dropped = false;
  for (const { metadata } of servicesOf(given)) {
    const slices = slicesOf(given, metadata).toSorted((a, b) => (a.metadata.name < b.metadata.name ? -1 : 1));
    for (const rivals of Map.groupBy(slices.flatMap(splitByPort), portKey).values()) {
      const counting = countingEntries(rivals, nodeName);
      for (const slice of rivals) {
        const endpoints = slice.endpoints.filter((entry) => counting.has(entry));
        dropped ||= endpoints.length < slice.endpoints.length;
        objects.set(keyOf(nameOf(slice)), { ...slice, endpoints });
      }
    }
  }
  return { objects, dropped };
}

function splitByPort(slice: SliceObject): SliceObject[] {
  // Each entry is an object of its own, so that a set can hold it.
  return slice.ports.map((port, index) => ({
    ...slice,
    metadata: { ...slice.metadata, name: `${slice.metadata.name}-${index}` },
    ports: [port],
    endpoints: slice.endpoints.map((entry) => ({ ...entry })),
  }));
}

/** Slices that are not selected, or of another family, do not compete. */
function portKey({ metadata, addressType, ports: [port] }: SliceObject): string {
  const isSelected = metadata.labels?.['service.kubernetes.io/headless'] === undefined;
  return JSON.stringify([isSelected, addressType, port]);
}

function countingEntries(slices: readonly SliceObject[], nodeName: string): ReadonlySet<EndpointObject> {
  const entries = slices.flatMap(({ endpoints }) => endpoints);
  const rank = ({ conditions: { ready = true, serving = true, terminating = false }, nodeName: at }: EndpointObject) =>
    (terminating ? 0 : 4) + (ready || serving ? 2 : 0) + (at === nodeName ? 1 : 0);
  const byAddress = Map.groupBy(entries, ({ addresses }) => addresses[0]);
  return new Set(
    [...byAddress.values()].map((rivals) => rivals.reduce((best, each) => (rank(each) > rank(best) ? each : best))),
  );
}
