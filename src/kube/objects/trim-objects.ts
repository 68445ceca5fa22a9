import { ANNOTATION, LABEL } from '../../base/well-known-labels.ts';
import type { Interner } from './interner.ts';
import { type JsonRecord, isRecord, recordOf, textOf, textOr, itemsOf, textsOf, booleanOf, integerOf } from './json.ts';
import type { ObjectMeta, Node, Endpoint, EndpointPort, EndpointSlice } from './objects.ts';

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

function trimAddress(value: unknown): Node['addresses'][number] | undefined {
  const { type, address } = recordOf(value);
  return typeof type === 'string' && typeof address === 'string' ? { type, address } : undefined;
}

/** Returns podCIDRs; if it is empty, the older field podCIDR. */
function podCidrs(spec: Readonly<Record<string, unknown>>): readonly string[] {
  const all = textsOf(spec['podCIDRs']);
  const single = textOf(spec['podCIDR']);
  return all.length > 0 || single === undefined || single === '' ? all : [single];
}

/** Reads a v1 Node. */
export function trimNode(value: unknown, interner: Interner): Trimmed<Node> {
  return trimObject('Node', value, interner, (object, meta) => {
    const spec = recordOf(object['spec']);
    return {
      meta,
      podCIDRs: podCidrs(spec),
      taintKeys: itemsOf(spec['taints'], (taint) => textOf(recordOf(taint)['key'])),
      addresses: itemsOf(recordOf(object['status'])['addresses'], trimAddress),
    };
  });
}

function hintNames(value: unknown, interner: Interner): readonly string[] {
  return itemsOf(value, (item) => {
    const name = textOf(recordOf(item)['name']);
    return name === undefined ? undefined : interner.intern(name);
  });
}

function trimEndpoint(value: unknown, interner: Interner, namespace: string): Endpoint | undefined {
  if (!isRecord(value)) return undefined;
  const conditions = recordOf(value['conditions']);
  const hints = recordOf(value['hints']);
  const target = recordOf(value['targetRef']);
  return {
    address: textsOf(value['addresses'])[0] ?? '',
    nodeName: interner.intern(textOr(value['nodeName'], '')),
    zone: interner.intern(textOr(value['zone'], '')),
    ready: booleanOf(conditions['ready']) ?? true,
    serving: booleanOf(conditions['serving']) ?? true,
    terminating: booleanOf(conditions['terminating']) ?? false,
    ownPod: target['kind'] === 'Pod' && textOr(target['namespace'], '') === namespace,
    hintZones: hintNames(hints['forZones'], interner),
    hintNodes: hintNames(hints['forNodes'], interner),
  };
}

function trimPort(value: unknown, interner: Interner): EndpointPort | undefined {
  if (!isRecord(value)) return undefined;
  const port = integerOf(value['port']);
  return {
    name: interner.intern(textOr(value['name'], '')),
    protocol: interner.intern(textOr(value['protocol'], 'TCP')),
    ...(port === undefined ? {} : { port }),
  };
}

/** Reads a discovery.k8s.io/v1 EndpointSlice. */
export function trimEndpointSlice(value: unknown, interner: Interner): Trimmed<EndpointSlice> {
  return trimObject('EndpointSlice', value, interner, (object, meta) => ({
    meta,
    addressType: interner.intern(textOr(object['addressType'], '')),
    endpoints: itemsOf(object['endpoints'], (item) => trimEndpoint(item, interner, meta.namespace)),
    ports: itemsOf(object['ports'], (item) => trimPort(item, interner)),
  }));
}
