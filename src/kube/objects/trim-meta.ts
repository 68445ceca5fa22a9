import { ANNOTATION, LABEL } from '../../base/well-known-labels.ts';
import type { Interner } from './interner.ts';
import { type JsonRecord, isRecord, recordOf, textOf, textOr } from './json.ts';
import type { ObjectMeta } from './objects.ts';

/** A trimmed object, or the reason why it is invalid. */
export type Trimmed<T> =
  { readonly object: T; readonly reason?: undefined } | { readonly object: undefined; readonly reason: string };

const KEPT_LABELS = Object.values(LABEL);
const KEPT_ANNOTATIONS = Object.values(ANNOTATION);
const NONE: Readonly<Record<string, string>> = Object.freeze({});

function keep(value: unknown, names: readonly string[], interner?: Interner): Readonly<Record<string, string>> {
  const record = recordOf(value);
  let kept: Record<string, string> | undefined;
  for (const name of names) {
    // Only known names are copied, so a label called "__proto__" is harmless.
    const text = Object.hasOwn(record, name) ? textOf(record[name]) : undefined;
    if (text !== undefined) (kept ??= {})[name] = interner?.intern(text) ?? text;
  }
  return kept ?? NONE;
}

/** Reads `metadata`; returns undefined if the object has no name. */
function trimMeta(object: JsonRecord, interner: Interner): ObjectMeta | undefined {
  const meta = recordOf(object['metadata']);
  const name = textOr(meta['name'], '');
  if (name === '') return undefined;
  const deletionTimestamp = textOf(meta['deletionTimestamp']);
  return {
    namespace: interner.intern(textOr(meta['namespace'], '')),
    name,
    resourceVersion: textOr(meta['resourceVersion'], ''),
    labels: keep(meta['labels'], KEPT_LABELS, interner),
    // Annotations are not interned: unique values such as timestamps would displace repeated strings.
    annotations: keep(meta['annotations'], KEPT_ANNOTATIONS),
    ...(deletionTimestamp === undefined ? {} : { deletionTimestamp }),
  };
}

/** Reads the metadata of an object, and calls `read` for its other fields. */
export function trimObject<T>(
  kind: string,
  value: unknown,
  interner: Interner,
  read: (object: JsonRecord, meta: ObjectMeta) => T,
): Trimmed<T> {
  if (!isRecord(value)) return { object: undefined, reason: `the ${kind} is not an object` };
  const meta = trimMeta(value, interner);
  return meta === undefined
    ? { object: undefined, reason: `the ${kind} has no metadata.name` }
    : { object: read(value, meta) };
}
