import { isDeepStrictEqual } from 'node:util';
import type { ManifestObject } from './manifest-file.ts';
import { type SourceEvent, objectKey } from '../objects/source.ts';

/** Kind and name of each object, with the object. */
export type ManifestSet = ReadonlyMap<string, ManifestObject>;

/** The kinds in the order in which their events are emitted. */
const KINDS = ['node', 'service', 'endpoint-slice'] as const;

const KIND_NAME = { service: 'Service', 'endpoint-slice': 'EndpointSlice', node: 'Node' } as const;

/** Merges the objects of all files. The first definition of an object wins; each other one is a warning. */
export function mergeManifests(files: ReadonlyMap<string, readonly ManifestObject[]>): {
  readonly set: ManifestSet;
  readonly conflicts: readonly string[];
} {
  const set = new Map<string, ManifestObject>();
  const definedIn = new Map<string, string>();
  const conflicts: string[] = [];
  for (const [file, objects] of files) {
    for (const item of objects) {
      const { meta } = item.object;
      const name = `${KIND_NAME[item.kind]} ${item.kind === 'node' ? meta.name : objectKey(meta)}`;
      const first = definedIn.get(name);
      if (first !== undefined) {
        const where = first === file ? `twice in ${file}` : `in ${first} and in ${file}`;
        conflicts.push(`${name} is defined ${where}: the first definition (in ${first}) is used; remove the other`);
        continue;
      }
      definedIn.set(name, file);
      set.set(name, item);
    }
  }
  return { set, conflicts };
}

/** Returns the events for the initial state. */
export function replacedEvents(set: ManifestSet): readonly SourceEvent[] {
  return KINDS.map((kind) => {
    const objects = [...set.values()].filter((item) => item.kind === kind).map(({ object }) => object);
    return { kind, event: { type: 'replaced', objects } } as SourceEvent;
  });
}

/** Returns the events for the changes between two states; for each kind, deletions come first. */
export function eventsBetween(before: ManifestSet, after: ManifestSet): readonly SourceEvent[] {
  const events: SourceEvent[] = [];
  for (const [name, { kind, object }] of before) {
    if (!after.has(name)) events.push({ kind, event: { type: 'deleted', object: object.meta } });
  }
  for (const [name, { kind, object }] of after) {
    const isSame = isDeepStrictEqual(before.get(name)?.object, object);
    if (!isSame) events.push({ kind, event: { type: 'applied', object } } as SourceEvent);
  }
  return events.toSorted((a, b) => KINDS.indexOf(a.kind) - KINDS.indexOf(b.kind));
}
