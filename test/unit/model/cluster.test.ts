import { describe, expect, test } from '@jest/globals';
import type { EndpointSlice, Service } from '../../../src/kube/objects/objects.ts';
import type { SourceEvent } from '../../../src/kube/objects/source.ts';
import { Cluster } from '../../../src/model/cluster.ts';
import type { EndpointModel } from '../../../src/model/service-model.ts';
import { formatHostPort } from '../../../src/base/ip.ts';
import { namespacedName } from '../../../src/base/service/names.ts';
import {
  HERE,
  WEB,
  applied,
  clusterOf,
  deleted,
  endpoint,
  meta,
  node,
  reasons,
  service,
  slice,
} from '../plan/build.ts';

function listed(services: readonly Service[], slices: readonly EndpointSlice[]): SourceEvent[] {
  return [
    { kind: 'service', event: { type: 'replaced', objects: services } },
    { kind: 'endpoint-slice', event: { type: 'replaced', objects: slices } },
  ];
}

function endpoints(cluster: Cluster, port = 0): readonly EndpointModel[] {
  return cluster.service(WEB)?.ports[port]?.endpoints ?? [];
}

function shown(cluster: Cluster, port = 0): string[] {
  return endpoints(cluster, port).map(({ address, port: number }) => formatHostPort(address, number));
}

/** default/web with two endpoints, its first changes taken. */
function settled(): Cluster {
  const cluster = clusterOf([...listed([service()], [slice(['10.244.1.2', '10.244.1.3'])]), applied.node(node())]);
  cluster.takeChanges();
  return cluster;
}

function changedBy(...events: readonly SourceEvent[]): string[] {
  const cluster = settled();
  for (const event of events) cluster.apply(event);
  return [...cluster.takeChanges().services];
}

describe('synced', () => {
  test('the cluster is synced when Services and slices have both been listed', () => {
    const cluster = new Cluster(HERE);
    cluster.apply({ kind: 'service', event: { type: 'replaced', objects: [] } });
    cluster.apply(applied.slice(slice([])));
    cluster.apply({ kind: 'node', event: { type: 'replaced', objects: [] } });
    expect(cluster.synced()).toBe(false);
    cluster.apply({ kind: 'endpoint-slice', event: { type: 'replaced', objects: [] } });
    expect(cluster.synced()).toBe(true);
  });
});

describe('changes', () => {
  test('a new Service is reported as changed once', () => {
    const cluster = clusterOf(listed([service()], []));
    expect(cluster.takeChanges()).toEqual({
      services: new Set([WEB]),
      nodeChanged: false,
      triggerTimes: [],
      rejected: [],
    });
    expect(cluster.takeChanges().services.size).toBe(0);
  });

  test.each([
    ['a port', applied.service(service({ ports: [] }))],
    ['a deleted service', deleted.service()],
    ['a deleted slice', deleted.slice()],
    ['a new endpoint', applied.slice(slice(['10.244.1.2', '10.244.1.3', '10.244.1.4']))],
    [
      'an endpoint that is no longer ready',
      applied.slice(slice(['10.244.1.2', endpoint('10.244.1.3', { ready: false })])),
    ],
    ['a topology hint', applied.slice(slice(['10.244.1.2', endpoint('10.244.1.3', { hintZones: ['a'] })]))],
    ['a service that became headless', applied.service(service({ clusterIP: 'None' }))],
    [
      'a service that another proxy took',
      applied.service(service({ meta: meta({ labels: { 'service.kubernetes.io/service-proxy-name': 'x' } }) })),
    ],
  ])('come from %s', (_name, event) => {
    expect(changedBy(event)).toEqual([WEB]);
  });

  test.each<[string, SourceEvent[]]>([
    ['the same again', [applied.service(service()), applied.slice(slice(['10.244.1.2', '10.244.1.3']))]],
    [
      'other labels and versions',
      [
        applied.service(
          service({ meta: meta({ labels: { 'topology.kubernetes.io/zone': 'b' }, resourceVersion: '9' }) }),
        ),
      ],
    ],
    ['the endpoints in another order', [applied.slice(slice(['10.244.1.3', '10.244.1.2']))]],
    [
      'an endpoint that was never usable',
      [applied.slice(slice(['10.244.1.2', '10.244.1.3', endpoint('10.244.1.4', { ready: false, serving: false })]))],
    ],
    ['a headless service', [applied.service(service({ meta: meta({ name: 'b' }), clusterIP: 'None' }))]],
    ['a relist that holds the same', listed([service()], [slice(['10.244.1.2', '10.244.1.3'])])],
    ['a deleted service that never was', [deleted.service('nobody'), deleted.slice('nobody')]],
  ])('do not come from %s', (_name, events) => {
    expect(changedBy(...events)).toEqual([]);
  });

  test('slices of a deleted Service are used when it is created again', () => {
    const cluster = settled();
    cluster.apply(deleted.service());
    expect([...cluster.takeChanges().services]).toEqual([WEB]);
    expect(cluster.service(WEB)).toBeUndefined();
    cluster.apply(applied.slice(slice(['10.244.1.9'])));
    expect(cluster.service(WEB)).toBeUndefined();
    cluster.apply(applied.service(service()));
    expect([...cluster.takeChanges().services]).toEqual([WEB]);
    expect(shown(cluster)).toEqual(['10.244.1.9:8080']);
  });

  test('objects that a new list no longer contains are removed', () => {
    const cluster = settled();
    const other = service({ meta: meta({ name: 'other' }) });
    for (const event of listed([other], [])) cluster.apply(event);
    expect([...cluster.takeChanges().services].sort()).toEqual(['default/other', 'default/web']);
    expect(cluster.names()).toEqual(['default/other']);
  });

  test('a slice that moves to another Service changes both Services', () => {
    const cluster = settled();
    cluster.apply(applied.service(service({ meta: meta({ name: 'b' }), clusterIP: '10.96.0.2' })));
    cluster.takeChanges();
    cluster.apply(applied.slice(slice(['10.244.1.2'], { meta: { labels: { 'kubernetes.io/service-name': 'b' } } })));
    expect([...cluster.takeChanges().services].sort()).toEqual(['default/b', 'default/web']);
    expect(shown(cluster)).toEqual([]);
  });
});

describe('the node', () => {
  test('the node counts as changed if a field that is used has changed', () => {
    const cluster = settled();
    cluster.apply(applied.node(node({ meta: meta({ name: HERE, namespace: '', resourceVersion: '7' }) })));
    expect(cluster.takeChanges().nodeChanged).toBe(false);
    const labels = { 'topology.kubernetes.io/zone': 'a' };
    cluster.apply(applied.node(node({ meta: meta({ name: HERE, namespace: '', labels }) })));
    expect(cluster.takeChanges().nodeChanged).toBe(true);
    expect(cluster.node()?.zone).toBe('a');
  });

  test('a Node update that affects no plan requests no new plans', () => {
    const cluster = settled();
    const own = meta({ name: HERE, namespace: '' });
    for (const same of [
      { meta: own, taintKeys: ['ToBeDeletedByClusterAutoscaler'] },
      { meta: { ...own, deletionTimestamp: '2024-01-01T00:00:00Z' } },
      { meta: own, podCIDRs: ['10.244.9.0/24'] },
      { meta: { ...own, resourceVersion: '8', labels: { 'service.kubernetes.io/headless': '' } } },
    ]) {
      cluster.apply(applied.node(node(same)));
      expect(cluster.changed()).toBe(false);
      expect(cluster.takeChanges()).toMatchObject({ nodeChanged: false, services: new Set() });
    }
    cluster.apply(applied.node(node({ meta: own, addresses: [{ type: 'InternalIP', address: '192.0.2.77' }] })));
    expect(cluster.changed()).toBe(true);
    expect(cluster.takeChanges().nodeChanged).toBe(true);
    expect(cluster.changed()).toBe(false);
  });

  test('the node keeps its values when its object is deleted; other Nodes are ignored', () => {
    const cluster = settled();
    cluster.apply({ kind: 'node', event: { type: 'deleted', object: { namespace: '', name: HERE } } });
    cluster.apply({ kind: 'node', event: { type: 'replaced', objects: [] } });
    cluster.apply(applied.node(node({ meta: meta({ name: 'node-z' }) })));
    expect(cluster.takeChanges().nodeChanged).toBe(false);
    expect(cluster.node()?.name).toBe(HERE);
  });
});

describe('endpoints', () => {
  test('endpoints match ports by name and protocol; each slice has its own port number', () => {
    const ports = [
      { name: 'a', protocol: 'TCP', port: 80, nodePort: 0 },
      { name: 'a', protocol: 'UDP', port: 80, nodePort: 0 },
      { name: 'b', protocol: 'TCP', port: 81, nodePort: 0 },
    ];
    const cluster = clusterOf([
      applied.service(service({ ports })),
      applied.slice(
        slice(['10.244.1.2'], {
          ports: [
            { name: 'a', protocol: 'TCP', port: 8080 },
            { name: 'b', protocol: 'TCP', port: 9000 },
          ],
        }),
      ),
      applied.slice(slice(['10.244.1.3'], { name: 'web-2', ports: [{ name: 'a', protocol: 'TCP', port: 8081 }] })),
      applied.slice(
        slice(['10.244.1.4'], {
          name: 'web-3',
          ports: [
            { name: 'a', protocol: 'UDP', port: 53 },
            { name: 'c', protocol: 'TCP', port: 1 },
          ],
        }),
      ),
    ]);
    expect(shown(cluster, 0)).toEqual(['10.244.1.2:8080', '10.244.1.3:8081']);
    expect(shown(cluster, 1)).toEqual(['10.244.1.4:53']);
    expect(shown(cluster, 2)).toEqual(['10.244.1.2:9000']);
  });

  test.each<[string, Partial<EndpointSlice>]>([
    ['of all ports', { ports: [{ name: '', protocol: 'TCP' }] }],
    ['of port 0', { ports: [{ name: '', protocol: 'TCP', port: 0 }] }],
    ['of port 70000', { ports: [{ name: '', protocol: 'TCP', port: 70_000 }] }],
    ['of an unknown protocol', { ports: [{ name: '', protocol: 'QUIC', port: 80 }] }],
  ])('%s are left out with a warning', (_name, fields) => {
    const { meta: _unused, endpoints: _also, ...rest } = { ...slice([]), ...fields };
    const cluster = clusterOf([applied.service(service()), applied.slice(slice(['10.244.1.2'], rest))]);
    expect(shown(cluster)).toEqual([]);
    expect(reasons(cluster.service(WEB)?.warnings ?? [])).toEqual(['invalid-endpoint-port']);
  });

  test.each([
    ['without an address', endpoint(''), []],
    ['with a host name for an address', endpoint('pod.example.org'), ['invalid-address']],
    ['of the other family', endpoint('fd00::2'), ['wrong-family']],
    ['on loopback', endpoint('127.0.0.1'), ['special-address']],
    ['at the metadata server of a cloud', endpoint('169.254.169.254'), ['special-address']],
  ])('%s are left out', (_name, bad, warnings) => {
    const cluster = clusterOf([applied.service(service()), applied.slice(slice([bad, '10.244.1.2']))]);
    expect(shown(cluster)).toEqual(['10.244.1.2:8080']);
    expect(reasons(cluster.service(WEB)?.warnings ?? [])).toEqual(warnings);
  });

  test('an endpoint is local only if it names this node', () => {
    const cluster = clusterOf([
      applied.service(service()),
      applied.slice(slice([endpoint('10.244.1.2', { nodeName: HERE }), endpoint('10.244.1.3', { nodeName: '' })])),
    ]);
    expect(endpoints(cluster)).toMatchObject([{ traits: { local: true } }, { traits: { local: false } }]);
  });

  test('no endpoint is local while this node has no name', () => {
    const cluster = clusterOf(
      [applied.service(service()), applied.slice(slice([endpoint('10.244.1.2', { nodeName: '' })]))],
      '',
    );
    expect(endpoints(cluster)[0]?.traits.local).toBe(false);
  });

  test('an endpoint in two slices counts once: the first slice by name is used, but a local entry has priority', () => {
    const first = slice(
      [endpoint('10.244.1.2', { hintZones: ['first'] }), endpoint('10.244.1.3', { hintZones: ['first'] })],
      { name: 'a' },
    );
    const second = slice(
      [
        endpoint('10.244.1.2', { hintZones: ['second'] }),
        endpoint('10.244.1.3', { hintZones: ['second'], nodeName: HERE }),
      ],
      { name: 'b' },
    );
    for (const order of [
      [first, second],
      [second, first],
    ]) {
      const cluster = clusterOf([applied.service(service()), ...order.map((each) => applied.slice(each))]);
      expect(endpoints(cluster)).toMatchObject([
        { traits: { zones: ['first'], local: false } },
        { traits: { zones: ['second'], local: true } },
      ]);
    }
  });

  test('slices that this proxy does not handle have no endpoints', () => {
    const labels = { 'kubernetes.io/service-name': 'web' };
    const cluster = clusterOf([
      applied.service(service()),
      applied.slice(slice(['10.244.1.2'], { name: 'a', meta: { labels: {} } })),
      applied.slice(
        slice(['10.244.1.2'], { name: 'b', meta: { labels: { ...labels, 'service.kubernetes.io/headless': '' } } }),
      ),
      applied.slice(slice(['10.244.1.2'], { name: 'c', meta: { labels, namespace: 'other' } })),
      applied.slice(slice(['pod.example.org'], { name: 'd', addressType: 'FQDN' })),
    ]);
    expect(shown(cluster)).toEqual([]);
    expect(cluster.service(WEB)?.warnings).toEqual([]);
  });
});

describe('trigger times', () => {
  const key = 'endpoints.kubernetes.io/last-change-trigger-time';
  const at = (address: string, time: string, name = 'web-1', addressType: 'IPv4' | 'IPv6' = 'IPv4'): SourceEvent =>
    applied.slice(slice([address], { name, addressType, meta: { annotations: { [key]: time } } }));

  test('trigger times are collected for each change, with the family of its slice, and returned once', () => {
    const cluster = settled();
    cluster.apply(at('10.244.1.5', '1970-01-01T00:00:01Z'));
    cluster.apply(at('fd00:10:244::6', '1970-01-01T00:00:02.5Z', 'web-2', 'IPv6'));
    expect(cluster.takeChanges().triggerTimes).toEqual([
      { family: 4, time: 1000 },
      { family: 6, time: 2500 },
    ]);
    expect(cluster.takeChanges().triggerTimes).toEqual([]);
  });

  test('trigger times are omitted if they are invalid or the Service is unknown', () => {
    const cluster = settled();
    cluster.apply(at('10.244.1.6', 'soon'));
    const labels = { 'kubernetes.io/service-name': 'b' };
    const annotations = { [key]: '1970-01-01T00:00:01Z' };
    cluster.apply(applied.slice(slice(['10.244.1.5'], { name: 'b-1', meta: { labels, annotations } })));
    expect(cluster.takeChanges().triggerTimes).toEqual([]);
  });
});

describe('hostile objects', () => {
  test.each([
    ['', 'x'],
    ['default', ''],
    ['default', 'a/b'],
    ['default', 'x'.repeat(300)],
  ])('namespace %p, name %p: rejected, said once', (namespace, name) => {
    const cluster = settled();
    for (let i = 0; i < 3; i++) cluster.apply(applied.service(service({ meta: meta({ namespace, name }) })));
    const { services, rejected } = cluster.takeChanges();
    expect(services.size).toBe(0);
    expect(rejected).toEqual([{ reason: 'invalid-name', message: expect.stringContaining('and 2 more like it') }]);
    expect(cluster.names()).toEqual([namespacedName('default', 'web')]);
  });

  test('a thousand invalid addresses cause one warning', () => {
    const bad = Array.from({ length: 1000 }, (_, i) => `bad-${i}`);
    const cluster = clusterOf([applied.service(service({ externalIPs: bad })), applied.slice(slice(bad))]);
    expect(reasons(cluster.service(WEB)?.warnings ?? [])).toEqual(['invalid-address']);
  });

  test('names such as __proto__ are ordinary names', () => {
    const cluster = new Cluster(HERE);
    for (const name of ['__proto__', 'constructor', 'toString']) {
      cluster.apply(applied.service(service({ meta: meta({ name }) })));
      cluster.apply(
        applied.slice(slice(['10.244.1.2'], { name, meta: { labels: { 'kubernetes.io/service-name': name } } })),
      );
    }
    expect([...cluster.takeChanges().services]).toHaveLength(3);
  });
});

describe('size', () => {
  test('the cost of ten thousand endpoints in a hundred slices grows with their number only', () => {
    const cluster = clusterOf([applied.service(service())]);
    const hundred = (n: number): EndpointSlice =>
      slice(
        Array.from({ length: 100 }, (_, i) => `10.${n}.0.${i + 1}`),
        { name: `web-${n}` },
      );
    for (let n = 0; n < 100; n++) cluster.apply(applied.slice(hundred(n)));
    expect(endpoints(cluster)).toHaveLength(10_000);
    cluster.takeChanges();
    cluster.apply(applied.slice(slice(['10.7.0.1'], { name: 'web-7' })));
    expect([...cluster.takeChanges().services]).toEqual([WEB]);
    expect(endpoints(cluster)).toHaveLength(9901);
  });

  test('endpoints with equal traits share one object for them', () => {
    const cluster = clusterOf([
      applied.service(service()),
      applied.slice(slice(['10.244.1.2', '10.244.1.3', '10.244.1.4'])),
    ]);
    const [first, second] = endpoints(cluster);
    expect(first?.traits).toBe(second?.traits);
  });
});
