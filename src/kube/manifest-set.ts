import type { ManifestObject } from './manifest-file.ts';
import { changesBetween, objectKey } from './object-index.ts';
import type { EndpointSlice, Node, Service } from './objects.ts';
import type { SourceEvent } from './source.ts';

/** All objects of all files. */
export interface ManifestSet {
  readonly services: ReadonlyMap<string, Service>;
  readonly endpointSlices: ReadonlyMap<string, EndpointSlice>;
  readonly nodes: ReadonlyMap<string, Node>;
  /** One sentence for each object that is defined twice. */
  readonly conflicts: readonly string[];
}

const KIND_NAME = { service: 'Service', 'endpoint-slice': 'EndpointSlice', node: 'Node' } as const;

/** Merges the files' objects, in the order of the files: who defines an object first wins. */
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
        conflicts.push(
          `${name} is defined ${where}: the definition that comes first (in ${first}) counts; remove the other`,
        );
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

/** The first state, whole. */
export function replacedEvents(set: ManifestSet): readonly SourceEvent[] {
  return [
    { kind: 'node', event: { type: 'replaced', objects: [...set.nodes.values()] } },
    { kind: 'service', event: { type: 'replaced', objects: [...set.services.values()] } },
    { kind: 'endpoint-slice', event: { type: 'replaced', objects: [...set.endpointSlices.values()] } },
  ];
}

/** Only what differs. */
export function changeEvents(before: ManifestSet, after: ManifestSet): readonly SourceEvent[] {
  return [
    ...changesBetween(before.nodes, after.nodes).map((event) => ({ kind: 'node', event }) as const),
    ...changesBetween(before.services, after.services).map((event) => ({ kind: 'service', event }) as const),
    ...changesBetween(before.endpointSlices, after.endpointSlices).map(
      (event) => ({ kind: 'endpoint-slice', event }) as const,
    ),
  ];
}
