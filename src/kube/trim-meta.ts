import type { Interner } from './interner.ts';
import { recordOf, textOf, textOr } from './json.ts';
import type { JsonRecord } from './json.ts';
import type { ObjectMeta } from './objects.ts';

/** A trimmed object, or why there is none. */
export type Trimmed<T> =
  { readonly object: T; readonly reason?: undefined } | { readonly object: undefined; readonly reason: string };

/** The labels that a service proxy reads. */
export const LABEL = {
  serviceName: 'kubernetes.io/service-name',
  serviceProxyName: 'service.kubernetes.io/service-proxy-name',
  headless: 'service.kubernetes.io/headless',
  zone: 'topology.kubernetes.io/zone',
} as const;

/** When the change that this slice reports happened: the start of the programming latency that a proxy measures. */
export const LAST_CHANGE_ANNOTATION = 'endpoints.kubernetes.io/last-change-trigger-time';

const KEPT_LABELS: readonly string[] = Object.values(LABEL);
const KEPT_ANNOTATIONS: readonly string[] = [LAST_CHANGE_ANNOTATION];
const NOTHING_KEPT: Readonly<Record<string, string>> = Object.freeze({});

function keep(value: unknown, names: readonly string[], interner?: Interner): Readonly<Record<string, string>> {
  const record = recordOf(value);
  let kept: Record<string, string> | undefined;
  for (const name of names) {
    // The names are our own, so a label called "__proto__" never gets here.
    const text = Object.hasOwn(record, name) ? textOf(record[name]) : undefined;
    if (text !== undefined) (kept ??= {})[name] = interner?.intern(text) ?? text;
  }
  return kept ?? NOTHING_KEPT;
}

/** Reads `metadata`; undefined when the object has no name, for then nothing can ever refer to it. */
export function trimMeta(object: JsonRecord, interner: Interner): ObjectMeta | undefined {
  const meta = recordOf(object['metadata']);
  const name = textOr(meta['name'], '');
  if (name === '') return undefined;
  const deletionTimestamp = textOf(meta['deletionTimestamp']);
  return {
    namespace: interner.intern(textOr(meta['namespace'], '')),
    name,
    resourceVersion: textOr(meta['resourceVersion'], ''),
    labels: keep(meta['labels'], KEPT_LABELS, interner),
    // Times: no two alike, they would only push out of the interner what repeats.
    annotations: keep(meta['annotations'], KEPT_ANNOTATIONS),
    ...(deletionTimestamp === undefined ? {} : { deletionTimestamp }),
  };
}
