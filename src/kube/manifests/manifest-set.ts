import { isDeepStrictEqual } from 'node:util';
import type { ManifestObject } from './manifest-file.ts';
import type { EndpointSlice, Node, ObjectMeta, Service } from '../objects/objects.ts';
import { type ObjectEvent, type SourceEvent, objectKey } from '../objects/source.ts';

/** The objects of all files. */
export interface ManifestSet {
  readonly services: ReadonlyMap<string, Service>;
  readonly endpointSlices: ReadonlyMap<string, EndpointSlice>;
  readonly nodes: ReadonlyMap<string, Node>;
  /** A warning for each object that is defined twice. */
  readonly conflicts: readonly string[];
}

const KIND_NAME = { service: 'Service', 'endpoint-slice': 'EndpointSlice', node: 'Node' } as const;

/** Merges the objects of all files. The first definition of an object wins. */
export function mergeManifests(files: ReadonlyMap<string, readonly ManifestObject[]>): ManifestSet {
  const services = new Map<string, Service>();
  const endpointSlices = new Map<string, EndpointSlice>();
  const nodes = new Map<string, Node>();
  const definedIn = new Map<string, string>();
  const conflicts: string[] = [];
  for (const [file, objects] of files) {
    for (const item of objects) {
      const key = item.kind === 'node' ? item.object.meta.name : objectKey(item.object.meta);
      const name = `${KIND_NAME[item.kind]} ${key}`;
      const first = definedIn.get(name);
      if (first !== undefined) {
        const where = first === file ? `twice in ${file}` : `in ${first} and in ${file}`;
        conflicts.push(`${name} is defined ${where}: the first definition (in ${first}) is used; remove the other`);
        continue;
      }
      definedIn.set(name, file);
      if (item.kind === 'service') services.set(key, item.object);
      else if (item.kind === 'endpoint-slice') endpointSlices.set(key, item.object);
      else nodes.set(key, item.object);
    }
  }
  return { services, endpointSlices, nodes, conflicts };
}

/** Returns the events for the initial state. */
export function replacedEvents(set: ManifestSet): readonly SourceEvent[] {
  return [
    { kind: 'node', event: { type: 'replaced', objects: [...set.nodes.values()] } },
    { kind: 'service', event: { type: 'replaced', objects: [...set.services.values()] } },
    { kind: 'endpoint-slice', event: { type: 'replaced', objects: [...set.endpointSlices.values()] } },
  ];
}

/** Returns the events for the changes between two states. */
export function changeEvents(before: ManifestSet, after: ManifestSet): readonly SourceEvent[] {
  return [
    ...changesBetween(before.nodes, after.nodes).map((event) => ({ kind: 'node', event }) as const),
    ...changesBetween(before.services, after.services).map((event) => ({ kind: 'service', event }) as const),
    ...changesBetween(before.endpointSlices, after.endpointSlices).map(
      (event) => ({ kind: 'endpoint-slice', event }) as const,
    ),
  ];
}

/** Returns the changes from one set of objects to another: deletions first. */
function changesBetween<T extends { readonly meta: ObjectMeta }>(
  before: ReadonlyMap<string, T>,
  after: ReadonlyMap<string, T>,
): readonly ObjectEvent<T>[] {
  const events: ObjectEvent<T>[] = [];
  for (const [key, { meta }] of before) {
    if (!after.has(key)) events.push({ type: 'deleted', object: { namespace: meta.namespace, name: meta.name } });
  }
  for (const [key, object] of after) {
    const old = before.get(key);
    if (old !== object && !isDeepStrictEqual(old, object)) events.push({ type: 'applied', object });
  }
  return events;
}
