import { isDeepStrictEqual } from 'node:util';
import type { ObjectMeta } from './objects.ts';
import type { ObjectEvent } from './source.ts';

interface Named {
  readonly meta: ObjectMeta;
}

export function objectKey(name: { readonly namespace: string; readonly name: string }): string {
  return `${name.namespace}/${name.name}`;
}

/** The changes that lead from one set of objects to another: deletions first, then what is new or differs. */
export function changesBetween<T extends Named>(
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
