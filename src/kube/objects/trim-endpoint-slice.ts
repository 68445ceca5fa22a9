import type { Interner } from './interner.ts';
import { booleanOf, integerOf, isRecord, itemsOf, recordOf, textOf, textOr, textsOf } from './json.ts';
import type { Endpoint, EndpointPort, EndpointSlice } from './objects.ts';
import { type Trimmed, trimObject } from './trim-meta.ts';

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
