import { describe, expect, test } from '@jest/globals';
import fc from 'fast-check';
import type { EndpointSlice, Node, Service } from '../../../src/kube/objects/objects.ts';
import type { SourceEvent } from '../../../src/kube/objects/source.ts';
import { Cluster } from '../../../src/model/cluster.ts';
import { compareIp, familyOf } from '../../../src/base/ip.ts';
import { type NamespacedName, namespacedName } from '../../../src/base/service/names.ts';
import { compareEntry } from '../../../src/plan/entry-order.ts';
import { planService } from '../../../src/plan/service/plan-service.ts';
import type { ServicePlan } from '../../../src/plan/service-plan.ts';
import { SET_ROLES } from '../../../src/state/set-roles.ts';
import { compareVirtualServer } from '../../../src/state/virtual-server.ts';
import { anyEvent, anyService, anySlice } from './arbitrary.ts';
import { HERE, applied, clusterOf, config, nodeView } from './build.ts';

const SEED = Number(process.env['SEED'] ?? 20_240_101);
const RUNS: fc.Parameters<unknown> = { seed: SEED, numRuns: 200 };
const history = fc.array(anyEvent, { minLength: 8, maxLength: 40, size: 'max' });

type Plans = Map<NamespacedName, ServicePlan>;

/** Unlike structuredClone(), makes objects of this test's realm, which isDeepStrictEqual() requires. */
function copyOf<T>(value: T): T {
  if (typeof value !== 'object' || value === null) return value;
  if (Array.isArray(value)) return value.map(copyOf) as T;
  return Object.fromEntries(Object.entries(value).map(([key, item]) => [key, copyOf(item)])) as T;
}

function plan(cluster: Cluster, name: NamespacedName): ServicePlan | undefined {
  const model = cluster.service(name);
  return model === undefined ? undefined : planService(model, nodeView({ zone: 'zone-a' }), config());
}

function plans(cluster: Cluster): Plans {
  const all: Plans = new Map();
  for (const name of cluster.names().toSorted()) {
    const one = plan(cluster, name);
    if (one !== undefined) all.set(name, one);
  }
  return all;
}

/** What a list would answer after these events: the objects alone, remembered without any cleverness. */
function listAfter(events: readonly SourceEvent[]): { services: Service[]; slices: EndpointSlice[] } {
  const known = { service: new Map<string, Service>(), 'endpoint-slice': new Map<string, EndpointSlice>() };
  for (const { kind, event } of events) {
    if (kind === 'node') continue;
    const objects = known[kind] as Map<string, Service | EndpointSlice>;
    const key = ({ namespace, name }: { namespace: string; name: string }): string => namespacedName(namespace, name);
    if (event.type === 'deleted') objects.delete(key(event.object));
    else {
      if (event.type === 'replaced') objects.clear();
      for (const object of event.type === 'replaced' ? event.objects : [event.object])
        objects.set(key(object.meta), object);
    }
  }
  return { services: [...known.service.values()], slices: [...known['endpoint-slice'].values()] };
}

function listed({ services, slices }: ReturnType<typeof listAfter>): Cluster {
  return clusterOf([
    { kind: 'service', event: { type: 'replaced', objects: services } },
    { kind: 'endpoint-slice', event: { type: 'replaced', objects: slices } },
  ]);
}

describe('for any history of objects', () => {
  test('after any history, the cluster equals one that was built from the remaining objects', () => {
    fc.assert(
      fc.property(history, (events) => {
        expect(plans(clusterOf(events))).toEqual(plans(listed(listAfter(events))));
      }),
      RUNS,
    );
  });

  test('plans updated by reported changes equal plans made from scratch', () => {
    fc.assert(
      fc.property(fc.array(fc.tuple(anyEvent, fc.boolean()), { minLength: 8, maxLength: 40, size: 'max' }), (steps) => {
        const cluster = new Cluster(HERE);
        const followed: Plans = new Map();
        const follow = (): void => {
          for (const name of cluster.takeChanges().services) {
            const now = plan(cluster, name);
            if (now === undefined) followed.delete(name);
            else followed.set(name, now);
          }
        };
        for (const [event, take] of steps) {
          cluster.apply(event);
          if (take) follow();
        }
        follow();
        expect(followed).toEqual(plans(listed(listAfter(steps.map(([event]) => event)))));
      }),
      RUNS,
    );
  });

  test('the plans do not depend on the order in which objects arrive', () => {
    const objects = fc.record({
      services: fc.uniqueArray(anyService, { selector: ({ meta }) => `${meta.namespace}/${meta.name}` }),
      slices: fc.uniqueArray(anySlice, { selector: ({ meta }) => `${meta.namespace}/${meta.name}` }),
    });
    fc.assert(
      fc.property(
        objects.chain(({ services, slices }) => {
          const events = [...services.map(applied.service), ...slices.map(applied.slice)];
          return fc.tuple(fc.constant(events), fc.shuffledSubarray(events, { minLength: events.length }));
        }),
        ([events, shuffled]) => {
          expect(plans(clusterOf(shuffled))).toEqual(plans(clusterOf(events)));
        },
      ),
      RUNS,
    );
  });

  test('listing the same state again causes no change', () => {
    fc.assert(
      fc.property(history, (events) => {
        const cluster = clusterOf(events);
        cluster.takeChanges();
        const { services, slices } = listAfter(events);
        for (const object of services) cluster.apply(applied.service(copyOf(object)));
        for (const object of slices) cluster.apply(applied.slice(copyOf(object)));
        expect([...cluster.takeChanges().services]).toEqual([]);
      }),
      RUNS,
    );
  });
});

describe('for any service', () => {
  test('the random histories contain Services, endpoints and every kind of entry', () => {
    const samples = fc.sample(history, { seed: SEED, numRuns: 100 }).map((events) => plans(clusterOf(events)));
    const all = samples.flatMap((each) => [...each.values()]);
    expect(samples.filter(({ size }) => size > 0).length).toBeGreaterThan(70);
    expect(
      all.filter((each) => each.virtualServers.some(({ realServers }) => realServers.length > 0)).length,
    ).toBeGreaterThan(20);
    expect(new Set(all.flatMap(({ entries }) => entries.map(({ role }) => role)))).toEqual(
      new Set(SET_ROLES.filter((role) => role !== 'NODE-PORT-IP')),
    );
  });

  test('a plan is sorted and unique, and never mixes families', () => {
    fc.assert(
      fc.property(history, (events) => {
        for (const { virtualServers, addresses, entries, udp } of plans(clusterOf(events)).values()) {
          const ids = virtualServers.map(({ virtualServer }) => virtualServer);
          expectIncreasing(ids, compareVirtualServer);
          expectIncreasing(addresses, compareIp);
          expectIncreasing(entries, compareEntry);
          expectIncreasing(
            udp.map(({ id }) => id),
            compareVirtualServer,
          );
          for (const { virtualServer, realServers } of virtualServers) {
            expectIncreasing(realServers, (a, b) => compareIp(a.address, b.address) || a.port - b.port);
            for (const { address, weight } of realServers) {
              expect(familyOf(address)).toBe(familyOf(virtualServer.address));
              expect(weight).toBe(1);
            }
          }
          const mixed = entries.filter(({ family, entry }) => 'address' in entry && familyOf(entry.address) !== family);
          expect(mixed).toEqual([]);
          const zero = entries.filter(({ entry }) => entry.type === 'hash:ip,port,net' && entry.network.prefix === 0);
          expect(zero).toEqual([]);
        }
      }),
      RUNS,
    );
  });

  test('every bound address has a virtual server, and no address of the node is closed', () => {
    const own = new Set(nodeView().interfaceAddresses);
    fc.assert(
      fc.property(history, (events) => {
        for (const { service, virtualServers, addresses, entries } of plans(clusterOf(events)).values()) {
          const served = new Set(virtualServers.map(({ virtualServer }) => virtualServer.address));
          const clusterIps = clusterOf(events).service(service)?.clusterIps ?? [];
          for (const address of addresses) expect(served.has(address) || clusterIps.includes(address)).toBe(true);
          expect(entries.filter(({ entry }) => entry.type === 'hash:ip' && own.has(entry.address))).toEqual([]);
        }
      }),
      RUNS,
    );
  });
});

function expectIncreasing<T>(items: readonly T[], compare: (a: T, b: T) => number): void {
  const steps = items.slice(1).map((item, at) => compare(items[at] ?? item, item));
  expect(steps.filter((step) => step >= 0)).toEqual([]);
}

describe('objects of any content at all', () => {
  // Of the types that kube/ guarantees, but nothing more.
  const text = fc.oneof(
    fc.string(),
    fc.string({ unit: 'binary' }),
    fc.ipV4(),
    fc.ipV6(),
    fc.constantFrom('__proto__', 'None'),
  );
  const number = fc.oneof(fc.integer(), fc.double());
  const texts = fc.array(text);
  const meta = fc.record({
    namespace: text,
    name: text,
    resourceVersion: text,
    labels: fc.dictionary(fc.oneof(text, fc.constant('kubernetes.io/service-name')), text),
    annotations: fc.dictionary(fc.oneof(text, fc.constant('endpoints.kubernetes.io/last-change-trigger-time')), text),
  });
  const service: fc.Arbitrary<Service> = fc.record({
    meta,
    type: text,
    clusterIP: text,
    clusterIPs: texts,
    ipFamilies: texts,
    externalIPs: texts,
    ports: fc.array(fc.record({ name: text, protocol: text, port: number, nodePort: number })),
    sessionAffinity: text,
    affinityTimeoutSeconds: number,
    internalTrafficPolicy: text,
    externalTrafficPolicy: text,
    healthCheckNodePort: number,
    loadBalancerSourceRanges: texts,
    loadBalancerIngress: fc.array(fc.record({ ip: text, ipMode: text }, { requiredKeys: ['ip'] })),
  });
  const slice: fc.Arbitrary<EndpointSlice> = fc.record({
    meta,
    addressType: fc.oneof(text, fc.constantFrom('IPv4', 'IPv6')),
    endpoints: fc.array(
      fc.record({
        address: text,
        nodeName: text,
        zone: text,
        ready: fc.boolean(),
        serving: fc.boolean(),
        terminating: fc.boolean(),
        ownPod: fc.boolean(),
        hintZones: texts,
        hintNodes: texts,
      }),
    ),
    ports: fc.array(fc.record({ name: text, protocol: text, port: number }, { requiredKeys: ['name', 'protocol'] })),
  });
  const node: fc.Arbitrary<Node> = fc.record({
    meta: fc.record({
      namespace: text,
      name: fc.constant(HERE),
      resourceVersion: text,
      labels: fc.dictionary(text, text),
      annotations: fc.dictionary(text, text),
    }),
    podCIDRs: texts,
    taintKeys: fc.array(text),
    addresses: fc.array(fc.record({ type: fc.constantFrom('InternalIP', 'ExternalIP', ''), address: text })),
  });

  test('objects with any content never cause an exception', () => {
    fc.assert(
      fc.property(fc.array(service), fc.array(slice), node, (services, slices, own) => {
        const cluster = clusterOf([applied.node(own), ...services.map(applied.service), ...slices.map(applied.slice)]);
        const { rejected } = cluster.takeChanges();
        expect(rejected.length).toBeLessThanOrEqual(1);
        expect(plans(cluster).size).toBe(cluster.names().length);
      }),
      RUNS,
    );
  });
});
