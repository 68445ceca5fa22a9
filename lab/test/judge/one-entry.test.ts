import { describe, expect, test } from '@jest/globals';
import type { Case, EndpointObject, SliceObject } from '../../judge/case/case.ts';
import { makeCase } from '../../judge/case/make-case.ts';
import { withOneEntry } from '../../judge/case/one-entry.ts';

const base = makeCase('ipvs', 1, 1);
const metadata = { namespace: 'default', creationTimestamp: '2026-01-01T00:00:00Z' };

function slice(name: string, port: number, ...endpoints: EndpointObject[]): SliceObject {
  return {
    apiVersion: 'discovery.k8s.io/v1',
    kind: 'EndpointSlice',
    metadata: { ...metadata, name, labels: { 'kubernetes.io/service-name': 's' } },
    addressType: 'IPv4',
    ports: [{ name: '', protocol: 'TCP', port }],
    endpoints,
  };
}

function entry(conditions: EndpointObject['conditions'], nodeName = 'node-1'): EndpointObject {
  return { addresses: ['10.244.0.1'], conditions, nodeName };
}

/** The conditions that are left of each slice, by the name that it had. */
function left(...slices: SliceObject[]): Record<string, EndpointObject['conditions'][]> | undefined {
  const service = {
    apiVersion: 'v1',
    kind: 'Service',
    metadata: { ...metadata, name: 's' },
    spec: { type: 'ClusterIP', clusterIP: '10.96.0.1', ports: [{ name: '', protocol: 'TCP', port: 80 }] },
  } as const;
  const given: Case = { ...base, steps: [{ apply: [service, ...slices], remove: [], flows: [] }] };
  const single = withOneEntry(given);
  if (single === undefined) return undefined;
  const found = single.steps[0]?.apply.filter((object) => object.kind === 'EndpointSlice') ?? [];
  return Object.fromEntries(
    found.map(({ metadata: { name }, endpoints }) => [name, endpoints.map(({ conditions }) => conditions)]),
  );
}

const READY = { ready: true };
const TERMINATING = { ready: false, serving: true, terminating: true };

describe('withOneEntry', () => {
  test('a case without two entries of one address stays as it is', () => {
    expect(left(slice('a', 80, entry(READY)))).toBeUndefined();
  });

  test('entries with different target ports are two endpoints', () => {
    expect(left(slice('a', 80, entry(READY)), slice('b', 81, entry(READY)))).toBeUndefined();
  });

  test('the entry that does not terminate counts, also in a slice that comes later', () => {
    expect(left(slice('a', 80, entry(TERMINATING)), slice('b', 80, entry(READY)))).toEqual({
      'a-0': [],
      'b-0': [READY],
    });
  });

  test('of two that do not terminate, the one on our node counts, else the first', () => {
    const other = { ready: true, serving: true };
    expect(left(slice('a', 80, entry(READY)), slice('b', 80, entry(other, 'node-0')))).toEqual({
      'a-0': [],
      'b-0': [other],
    });
    expect(left(slice('b', 80, entry(other)), slice('a', 80, entry(READY)))).toEqual({ 'a-0': [READY], 'b-0': [] });
  });
});
