import { describe, expect, test } from '@jest/globals';
import { Interner } from '../../../src/kube/objects/interner.ts';
import type { EndpointSlice, Service } from '../../../src/kube/objects/objects.ts';
import { trimEndpointSlice } from '../../../src/kube/objects/trim-objects.ts';
import { trimService } from '../../../src/kube/objects/trim-service.ts';
import { Cluster } from '../../../src/model/cluster.ts';
import { NodePlan } from '../../../src/plan/node/node-plan.ts';
import type { PlanConfig } from '../../../src/plan/plan-config.ts';
import { planService } from '../../../src/plan/service/plan-service.ts';
import { memoryUsed } from '../../support/memory-used.ts';

// What a Service and an endpoint cost for as long as they live, in bytes of heap: lab/notes/memory.md has what was measured. The bounds
// leave a quarter and more above it; a list with room for sixteen more, kept by each Service, is over them.

const SERVICES = 2_000;
const NODE = 'node-0';
const CONFIG: PlanConfig = {
  scheduler: 'lc',
  families: [4, 6],
  nodeName: NODE,
  nodePortAddresses: { primary: false, cidrs: [] },
  masqueradeAll: false,
  masqueradeMark: 0x4000,
  localDetectors: {},
  randomFully: true,
};

/** From JSON text, as off the wire: else the strings would be those of this file. */
function parsed(value: unknown): unknown {
  return JSON.parse(JSON.stringify(value));
}

function serviceOf(index: number, interner: Interner): Service {
  const { object } = trimService(
    parsed({
      metadata: { name: `service-${index}`, namespace: `team-${index % 50}`, uid: `${index}-5f2c-4a8e-b1d7-0c9a3e6f` },
      spec: {
        type: 'ClusterIP',
        clusterIP: `10.96.${index >> 8}.${index & 255}`,
        clusterIPs: [`10.96.${index >> 8}.${index & 255}`],
        ipFamilies: ['IPv4'],
        ports: [{ name: 'web', port: 80, protocol: 'TCP', targetPort: 8080 }],
      },
    }),
    interner,
  );
  if (object === undefined) throw new Error('no Service');
  return object;
}

function sliceOf(index: number, endpoints: number, interner: Interner): EndpointSlice {
  const { object } = trimEndpointSlice(
    parsed({
      metadata: {
        name: `service-${index}-abcde`,
        namespace: `team-${index % 50}`,
        labels: { 'kubernetes.io/service-name': `service-${index}` },
      },
      addressType: 'IPv4',
      endpoints: Array.from({ length: endpoints }, (_, pod) => ({
        addresses: [`10.${64 + pod}.${index >> 8}.${index & 255}`],
        conditions: { ready: true, serving: true, terminating: false },
        nodeName: `node-${pod}`,
        targetRef: { kind: 'Pod', name: `service-${index}-${pod}` },
      })),
      ports: [{ name: 'web', port: 8080, protocol: 'TCP' }],
    }),
    interner,
  );
  if (object === undefined) throw new Error('no EndpointSlice');
  return object;
}

interface Kept {
  readonly trimmed: number;
  readonly cluster: number;
  readonly plan: number;
}

/** What `make` makes weighs so many bytes a Service. Nothing but the answer refers to it: variables of an async function live long. */
async function weighed<T>(make: () => T): Promise<{ readonly made: T; readonly bytes: number }> {
  const before = (await memoryUsed()).heapUsed;
  const made = make();
  return { made, bytes: ((await memoryUsed()).heapUsed - before) / SERVICES };
}

function makeObjects(endpoints: number): (Service | EndpointSlice)[] {
  const interner = new Interner();
  return Array.from({ length: 2 * SERVICES }, (_, at) =>
    at < SERVICES ? serviceOf(at, interner) : sliceOf(at - SERVICES, endpoints, interner),
  );
}

function makeCluster(endpoints: number): Cluster {
  const cluster = new Cluster(NODE);
  for (const object of makeObjects(endpoints)) {
    if ('type' in object) cluster.apply({ kind: 'service', event: { type: 'applied', object } });
    else cluster.apply({ kind: 'endpoint-slice', event: { type: 'applied', object } });
  }
  cluster.takeChanges();
  return cluster;
}

function makePlan(cluster: Cluster): NodePlan {
  const plan = new NodePlan();
  plan.ignoreChanges();
  const view = { zone: '', nodeIps: [], reportedAddresses: [], interfaceAddresses: [] };
  for (const name of cluster.names()) {
    const service = cluster.service(name);
    plan.replace(name, service === undefined ? undefined : planService(service, view, CONFIG));
  }
  plan.forgetChanges();
  return plan;
}

async function keptWith(endpoints: number): Promise<Kept> {
  const { bytes: trimmed } = await weighed(() => makeObjects(endpoints));
  const cluster = await weighed(() => makeCluster(endpoints));
  const plan = await weighed(() => makePlan(cluster.made));
  expect(plan.made.virtualServerCount).toBe(SERVICES);
  return { trimmed, cluster: cluster.bytes, plan: plan.bytes };
}

describe('bytes of heap', () => {
  test('a Service with one endpoint, and each further endpoint, retain no more heap than their limits', async () => {
    // Once for what is made but once: compiled code, shapes of objects.
    await keptWith(1);
    const one = await keptWith(1);
    const ten = await keptWith(10);
    const endpoint = (layer: keyof Kept): number => (ten[layer] - one[layer]) / 9;
    // A target: at most 3 kB.
    expect(one.cluster + one.plan).toBeLessThan(3_000);
    expect(one.cluster).toBeLessThan(1_400);
    expect(endpoint('cluster') + endpoint('plan')).toBeLessThan(150);
    // Held only until a list is whole, but all at once.
    expect(one.trimmed).toBeLessThan(1_400);
    expect(endpoint('trimmed')).toBeLessThan(170);
  }, 240_000);

  test('annotations of 200,000 characters are not kept, neither until a list is whole nor afterwards', async () => {
    const interner = new Interner();
    const many = (prefix: string): Readonly<Record<string, string>> =>
      Object.fromEntries(Array.from({ length: 40 }, (_, at) => [`kube-ipvs-proxy/${prefix}-${at}`, 'x'.repeat(5_000)]));
    const objectOf = (index: number): Service => {
      const annotations = {
        'kube-ipvs-proxy/weights': `zone=${'a'.repeat(200_000)}:${index}`,
        ...many(`unknown-${index}`),
      };
      const metadata = { name: `service-${index}`, namespace: 'tenant', annotations };
      const { object } = trimService(parsed({ metadata, spec: { clusterIP: '10.96.0.1' } }), interner);
      if (object === undefined) throw new Error('no Service');
      return object;
    };
    const before = (await memoryUsed()).heapUsed;
    const objects = Array.from({ length: 100 }, (_, index) => objectOf(index));
    const listed = (await memoryUsed()).heapUsed;
    const cluster = new Cluster(NODE);
    for (const object of objects.splice(0)) cluster.apply({ kind: 'service', event: { type: 'applied', object } });
    const kept = (await memoryUsed()).heapUsed;
    expect(cluster.names()).toHaveLength(100);
    expect((listed - before) / 100).toBeLessThan(50_000);
    expect((kept - before) / 100).toBeLessThan(25_000);
  }, 60_000);
});
