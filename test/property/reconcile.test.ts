import { describe, expect, test } from '@jest/globals';
import fc from 'fast-check';
import { FakeKernel } from '../../src/kernel/fake-kernel.ts';
import type { Service } from '../../src/kube/objects.ts';
import type { SourceEvent } from '../../src/kube/source.ts';
import { parseIp } from '../../src/net/ip.ts';
import { listed, port, service, slice } from '../support/objects.ts';
import { Reconciling } from '../support/reconciling.ts';
import { kernelText } from '../support/kernel-text.ts';

const name = fc.constantFrom('a', 'b', 'c', 'kubernetes');
const address = fc.integer({ min: 1, max: 6 });

/** A service of any kind, small enough that several get in each other's way: shared external IPs, ports, endpoints. */
const anyService: fc.Arbitrary<Service> = fc
  .record({
    name,
    ip6: fc.boolean(),
    number: fc.constantFrom(80, 81),
    protocol: fc.constantFrom('TCP', 'UDP', 'SCTP'),
    nodePort: fc.constantFrom(0, 30_080, 30_081),
    external: fc.subarray(['203.0.113.1', '203.0.113.2', '192.168.9.1', 'fd00:9::1']),
    ingress: fc.subarray(['203.0.113.3', '203.0.113.4']),
    ranges: fc.subarray(['198.51.100.0/24', '0.0.0.0/0', 'nonsense']),
    affinity: fc.boolean(),
    local: fc.boolean(),
    type: fc.constantFrom('ClusterIP', 'NodePort', 'LoadBalancer', 'ExternalName'),
  })
  .map((value) =>
    service(value.name, `${value.ip6 ? 'fd00:96::' : '10.96.0.'}${value.name.charCodeAt(0) % 10}`, {
      type: value.type,
      ports: [port(value.number, { protocol: value.protocol, nodePort: value.nodePort })],
      externalIPs: value.external,
      loadBalancerIngress: value.ingress.map((ip) => ({ ip })),
      loadBalancerSourceRanges: value.ranges,
      sessionAffinity: value.affinity ? 'ClientIP' : 'None',
      ...(value.affinity ? { affinityTimeoutSeconds: 600 } : {}),
      externalTrafficPolicy: value.local ? 'Local' : 'Cluster',
    }),
  );

const anyEvent: fc.Arbitrary<SourceEvent> = fc.oneof(
  anyService.map((object): SourceEvent => ({ kind: 'service', event: { type: 'applied', object } })),
  name.map((object): SourceEvent => ({
    kind: 'service',
    event: { type: 'deleted', object: { namespace: 'default', name: object } },
  })),
  fc
    .record({ of: name, hosts: fc.uniqueArray(address, { maxLength: 4 }), ip6: fc.boolean(), udp: fc.boolean() })
    .map(({ of, hosts, ip6, udp }): SourceEvent => ({
      kind: 'endpoint-slice',
      event: {
        type: 'applied',
        object: slice(
          of,
          hosts.map((host) => `${ip6 ? 'fd00:244::' : '10.244.0.'}${host}`),
          { suffix: ip6 ? 'six' : 'four', ports: [{ name: '', protocol: udp ? 'UDP' : 'TCP', port: 8080 }] },
        ),
      },
    })),
);

async function newKernel(): Promise<FakeKernel> {
  const kernel = new FakeKernel();
  await kernel.prepare();
  kernel.setNodeAddresses(
    ['192.168.9.1', 'fd00:9::1'].flatMap((text) => {
      const own = parseIp(text);
      return own === undefined ? [] : [{ address: own, prefix: 24, interfaceName: 'eth0', tentative: false }];
    }),
  );
  return kernel;
}

/** What the kernel must hold after these events, computed from nothing. */
async function fromScratch(events: readonly SourceEvent[]): Promise<string> {
  const kernel = await newKernel();
  await new Reconciling(kernel).take(...listed([], []), ...events);
  return kernelText(kernel);
}

describe('for random histories of objects', () => {
  test('following each change ends in the same kernel state as starting from scratch, and a full check finds nothing', async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(anyEvent, { minLength: 1, maxLength: 25 }), async (events) => {
        const kernel = await newKernel();
        const run = new Reconciling(kernel);
        await run.take(...listed([], []));
        for (const event of events) await run.take(event);
        expect(await kernelText(kernel)).toBe(await fromScratch(events));
        const report = await run.pass(30_000);
        expect([...report.operations.keys()]).toEqual([]);
      }),
      { numRuns: 150 },
    );
  });

  test('killed at any operation of any sync and started again, the kernel ends equal to the plan', async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.array(anyEvent, { minLength: 2, maxLength: 12 }),
        fc.nat(60),
        fc.nat(100),
        async (events, operations, cut) => {
          const kernel = await newKernel();
          const before = events.slice(0, 1 + (cut % events.length));
          const victim = new Reconciling(kernel);
          await victim.take(...listed([], []), ...before.slice(0, -1));
          kernel.crashAfter(operations);
          await victim.take(before.at(-1)!);
          // Nothing of the victim survives but what the kernel holds.
          kernel.recover();
          const heir = new Reconciling(kernel);
          await heir.take(...listed([], []), ...events);
          expect(await kernelText(kernel)).toBe(await fromScratch(events));
        },
      ),
      { numRuns: 150 },
    );
  });
});
