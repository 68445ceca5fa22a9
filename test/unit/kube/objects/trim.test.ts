import { parseLabelSelector } from '../../../../src/base/label-selector.ts';
import type { ServiceDefaults } from '../../../../src/base/service/service-defaults.ts';
import { describe, expect, test } from '@jest/globals';
import fc from 'fast-check';
import { Interner } from '../../../../src/kube/objects/interner.ts';
import { trimEndpointSlice, trimNode } from '../../../../src/kube/objects/trim-objects.ts';
import { trimService } from '../../../../src/kube/objects/trim-service.ts';

const interner = new Interner();
const NO_META = { resourceVersion: '', labels: {}, annotations: {} };

describe('trimService', () => {
  test('of the annotations, only those with our prefix are kept, and 16 at most', () => {
    const annotations = (given: Readonly<Record<string, unknown>>) =>
      trimService({ metadata: { name: 'web', annotations: given } }, new Interner()).object?.annotations;
    expect(annotations({ note: 'x', 'kubectl.kubernetes.io/last-applied-configuration': '{}' })).toBeUndefined();
    expect(annotations({ note: 'x', 'kube-ipvs-proxy/scheduler': 'sh', 'kube-ipvs-proxy/weights': 3 })).toEqual([
      { name: 'scheduler', value: 'sh' },
    ]);
    const many = Object.fromEntries(Array.from({ length: 99 }, (_, at) => [`kube-ipvs-proxy/${at}`, '']));
    expect(annotations(many)).toHaveLength(16);
    const [long] = annotations({ 'kube-ipvs-proxy/weights': 'é'.repeat(9_000) }) ?? [];
    expect(long?.value).toBe('é'.repeat(1_001));
  });

  test('a trimmed Service has only the fields that the proxy reads', () => {
    const { object } = trimService(
      {
        metadata: {
          name: 'web',
          namespace: 'shop',
          uid: 'u1',
          resourceVersion: '7',
          creationTimestamp: '2026-01-01T00:00:00Z',
          deletionTimestamp: '2026-01-02T00:00:00Z',
          labels: { app: 'web', 'service.kubernetes.io/headless': '' },
          annotations: { note: 'x' },
          managedFields: [{ manager: 'kubectl' }],
        },
        spec: {
          type: 'LoadBalancer',
          clusterIP: '10.96.0.1',
          clusterIPs: ['10.96.0.1', 'fd00::1'],
          ipFamilies: ['IPv4', 'IPv6'],
          externalIPs: ['192.0.2.1'],
          ports: [{ name: 'http', protocol: 'UDP', port: 80, targetPort: 'web', nodePort: 30080 }],
          sessionAffinity: 'ClientIP',
          sessionAffinityConfig: { clientIP: { timeoutSeconds: 60 } },
          internalTrafficPolicy: 'Local',
          externalTrafficPolicy: 'Local',
          healthCheckNodePort: 31000,
          loadBalancerSourceRanges: ['198.51.100.0/24'],
          selector: { app: 'web' },
        },
        status: { loadBalancer: { ingress: [{ ip: '203.0.113.1', ipMode: 'Proxy' }, { hostname: 'lb' }, {}] } },
      },
      interner,
    );
    expect(object).toEqual({
      meta: {
        namespace: 'shop',
        name: 'web',
        resourceVersion: '7',
        deletionTimestamp: '2026-01-02T00:00:00Z',
        labels: { 'service.kubernetes.io/headless': '' },
        annotations: {},
      },
      creationTimestamp: '2026-01-01T00:00:00Z',
      type: 'LoadBalancer',
      clusterIP: '10.96.0.1',
      clusterIPs: ['10.96.0.1', 'fd00::1'],
      ipFamilies: ['IPv4', 'IPv6'],
      externalIPs: ['192.0.2.1'],
      ports: [{ name: 'http', protocol: 'UDP', port: 80, nodePort: 30080 }],
      sessionAffinity: 'ClientIP',
      affinityTimeoutSeconds: 60,
      internalTrafficPolicy: 'Local',
      externalTrafficPolicy: 'Local',
      healthCheckNodePort: 31000,
      loadBalancerSourceRanges: ['198.51.100.0/24'],
      loadBalancerIngress: [{ ip: '203.0.113.1', ipMode: 'Proxy' }],
    });
  });

  test('a Service is measured if the selector matches its labels, of which it keeps none', () => {
    const measured = parseLabelSelector('tier=front')!;
    const trimmed = (labels: unknown) =>
      trimService({ metadata: { name: 'a', labels }, spec: { clusterIP: '10.96.0.1' } }, interner, { measured }).object;
    expect(trimmed({ tier: 'front' })).toMatchObject({ measured: true, meta: { labels: {} } });
    for (const labels of [{ tier: 'back' }, undefined, 'x']) expect(trimmed(labels)).not.toHaveProperty('measured');
  });

  test('a Service has those defaults of the operator that select its labels, in their order', () => {
    const of = (index: number, selector: string): ServiceDefaults => ({
      path: `serviceDefaults[${index}]`,
      selector: parseLabelSelector(selector)!,
      annotations: [],
      override: false,
    });
    const defaults = [of(0, 'tier in (front,edge)'), of(1, 'tier=back'), of(2, '!batch'), of(3, '')];
    const selected = (labels: unknown) =>
      trimService({ metadata: { name: 'a', labels } }, interner, { defaults }).object?.defaults?.map(
        ({ path }) => path,
      );
    expect(selected({ tier: 'edge' })).toEqual(['serviceDefaults[0]', 'serviceDefaults[2]', 'serviceDefaults[3]']);
    expect(selected({ tier: 'back', batch: '' })).toEqual(['serviceDefaults[1]', 'serviceDefaults[3]']);
    expect(selected(undefined)).toEqual(['serviceDefaults[2]', 'serviceDefaults[3]']);
    const none = trimService({ metadata: { name: 'a' } }, interner, { defaults: [of(0, 'tier=back')] }).object;
    expect(none).not.toHaveProperty('defaults');
  });

  test('a trimmed Service has the defaults of the API server', () => {
    const { object } = trimService(
      { metadata: { name: 'a' }, spec: { clusterIP: '10.96.0.1', ports: [{ port: 80 }], sessionAffinity: 'ClientIP' } },
      interner,
    );
    expect(object).toMatchObject({
      type: 'ClusterIP',
      affinityTimeoutSeconds: 10_800,
      internalTrafficPolicy: 'Cluster',
      externalTrafficPolicy: 'Cluster',
      ports: [{ name: '', protocol: 'TCP', port: 80, nodePort: 0 }],
    });
  });

  test('a field of the wrong type is dropped, the others stay', () => {
    const { object } = trimService(
      {
        metadata: { name: 'a', namespace: 7, labels: [], annotations: 'x' },
        spec: {
          clusterIP: 10,
          clusterIPs: null,
          ipFamilies: ['IPv4', 6],
          externalIPs: { a: 1 },
          ports: [null, 'x', { port: '80' }, { port: 80.5 }, { port: 80, name: 3, protocol: [], nodePort: 'x' }],
        },
        status: { loadBalancer: { ingress: 'none' } },
      },
      interner,
    );
    expect(object).toMatchObject({
      meta: { namespace: '', name: 'a', ...NO_META },
      clusterIP: '',
      clusterIPs: [],
      ipFamilies: ['IPv4'],
      externalIPs: [],
      ports: [
        { name: '', protocol: 'TCP', port: 0, nodePort: 0 },
        { name: '', protocol: 'TCP', port: 0, nodePort: 0 },
        { name: '', protocol: 'TCP', port: 80, nodePort: 0 },
      ],
      loadBalancerIngress: [],
    });
  });
});

describe('trimEndpointSlice', () => {
  test('a trimmed slice gives nil conditions their meaning in the API, and distinguishes nil and ""', () => {
    const nil = { ready: true, serving: true, terminating: false };
    const { object } = trimEndpointSlice(
      {
        metadata: {
          name: 'web-1',
          namespace: 'shop',
          labels: { 'kubernetes.io/service-name': 'web', app: 'web' },
          annotations: { 'endpoints.kubernetes.io/last-change-trigger-time': '2026-01-01T00:00:00Z', x: 'y' },
        },
        addressType: 'IPv4',
        endpoints: [
          {
            addresses: ['10.0.0.1', '10.0.0.2'],
            conditions: { ready: false, serving: null },
            nodeName: 'n1',
            targetRef: { kind: 'Pod', namespace: 'shop', name: 'p' },
          },
          {
            addresses: null,
            targetRef: { kind: 'Pod', namespace: 'other', name: 'q' },
            hints: { forZones: [{ name: 'z1' }, {}, null], forNodes: [{ name: 'n2' }] },
          },
          'x',
        ],
        ports: [{ port: 80 }, { name: '', port: null, protocol: 'SCTP' }, 1],
      },
      interner,
    );
    expect(object).toEqual({
      meta: {
        ...NO_META,
        namespace: 'shop',
        name: 'web-1',
        labels: { 'kubernetes.io/service-name': 'web' },
        annotations: { 'endpoints.kubernetes.io/last-change-trigger-time': '2026-01-01T00:00:00Z' },
      },
      addressType: 'IPv4',
      endpoints: [
        {
          address: '10.0.0.1',
          nodeName: 'n1',
          zone: '',
          ...nil,
          ready: false,
          ownPod: true,
          hintZones: [],
          hintNodes: [],
        },
        { address: '', nodeName: '', zone: '', ...nil, ownPod: false, hintZones: ['z1'], hintNodes: ['n2'] },
      ],
      ports: [
        { name: '', protocol: 'TCP', port: 80 },
        { name: '', protocol: 'SCTP' },
      ],
    });
  });
});

describe('trimNode', () => {
  test('a trimmed Node has pod CIDRs, taints, addresses and the zone', () => {
    const { object } = trimNode(
      {
        metadata: { name: 'n1', labels: { 'topology.kubernetes.io/zone': 'z1', other: 'x' } },
        spec: { podCIDR: '10.1.0.0/24', taints: [{ key: 'k', effect: 'NoSchedule' }, { value: 'v' }] },
        status: { addresses: [{ type: 'InternalIP', address: '192.0.2.1' }, { type: 1 }], images: [{ names: ['x'] }] },
      },
      interner,
    );
    expect(object).toEqual({
      meta: { ...NO_META, namespace: '', name: 'n1', labels: { 'topology.kubernetes.io/zone': 'z1' } },
      podCIDRs: ['10.1.0.0/24'],
      taintKeys: ['k'],
      addresses: [{ type: 'InternalIP', address: '192.0.2.1' }],
    });
  });
});

test('an object without a name is refused with a reason', () => {
  expect(trimService({ metadata: {} }, interner)).toEqual({
    object: undefined,
    reason: 'the Service has no metadata.name',
  });
  expect(trimService(null, interner)).toEqual({ object: undefined, reason: 'the Service is not an object' });
  expect(trimEndpointSlice([], interner)).toMatchObject({ object: undefined });
  expect(trimNode({ metadata: { name: '' } }, interner)).toMatchObject({ object: undefined });
});

test('trimming never throws, for any JSON', () => {
  const shaped = fc.record({
    metadata: fc.record({ name: fc.constantFrom('a', 'b'), labels: fc.jsonValue(), annotations: fc.jsonValue() }),
    spec: fc.oneof(
      fc.jsonValue(),
      fc.record({ ports: fc.jsonValue(), clusterIPs: fc.jsonValue(), taints: fc.jsonValue() }),
    ),
    status: fc.oneof(fc.jsonValue(), fc.record({ loadBalancer: fc.jsonValue(), addresses: fc.jsonValue() })),
    endpoints: fc.oneof(fc.jsonValue(), fc.array(fc.record({ addresses: fc.jsonValue(), hints: fc.jsonValue() }))),
    ports: fc.oneof(fc.jsonValue(), fc.array(fc.jsonValue())),
  });
  fc.assert(
    fc.property(fc.oneof(fc.jsonValue(), shaped), (value) => {
      const results = [trimService(value, interner), trimEndpointSlice(value, interner), trimNode(value, interner)];
      for (const { object, reason } of results) expect((object === undefined) !== (reason === undefined)).toBe(true);
    }),
  );
});

test('strings that differ in each object are not interned', () => {
  const own = new Interner();
  const trimmed = (minute: number): void => {
    const metadata = {
      name: 'web-abcde',
      namespace: 'shop',
      uid: `uid-${minute}`,
      resourceVersion: String(minute),
      annotations: { 'endpoints.kubernetes.io/last-change-trigger-time': `2026-01-01T00:0${minute}:00Z` },
    };
    const endpoints = [{ addresses: [`10.0.0.${minute}`], nodeName: 'node-a' }];
    const { object } = trimEndpointSlice({ metadata, addressType: 'IPv4', endpoints }, own);
    expect(object?.meta.annotations).toEqual(metadata.annotations);
  };
  trimmed(0);
  const { size } = own;
  for (let minute = 1; minute < 9; minute++) trimmed(minute);
  expect(own.size).toBe(size);
});

test('an interner keeps one copy and a bounded number of them', () => {
  const small = new Interner(2);
  expect(['a', 'b', 'a', 'c', 'd'].map((text) => small.intern(text))).toEqual(['a', 'b', 'a', 'c', 'd']);
  expect(small.size).toBeLessThanOrEqual(2);
});
