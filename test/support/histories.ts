import fc from 'fast-check';
import type { Service } from '../../src/kube/objects/objects.ts';
import type { SourceEvent } from '../../src/kube/objects/source.ts';
import { endpoint, port, service, slice } from './objects.ts';

const name = fc.constantFrom('a', 'b', 'c', 'kubernetes');
const address = fc.integer({ min: 1, max: 6 });

/** A Service of any kind, from few values, so that several conflict: shared external IPs, ports, endpoints. */
export const anyService: fc.Arbitrary<Service> = fc
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

/** An endpoint that is ready (the usual state), terminates and still serves, or is not ready yet. */
const conditions = fc.oneof(
  { weight: 3, arbitrary: fc.constant({}) },
  fc.constantFrom({ ready: false, terminating: true }, { ready: false, serving: false }),
);

/** Endpoints of few addresses, so that slices share some and one slice may have an address twice. */
const endpoints = fc.array(fc.record({ host: address, conditions }), { maxLength: 5 });

/** One change of one object. */
export const anyEvent: fc.Arbitrary<SourceEvent> = fc.oneof(
  anyService.map((object): SourceEvent => ({ kind: 'service', event: { type: 'applied', object } })),
  name.map((object): SourceEvent => ({
    kind: 'service',
    event: { type: 'deleted', object: { namespace: 'default', name: object } },
  })),
  fc
    .record({ of: name, endpoints, ip6: fc.boolean(), udp: fc.boolean(), second: fc.boolean() })
    .map(({ of, endpoints: hosts, ip6, udp, second }): SourceEvent => ({
      kind: 'endpoint-slice',
      event: {
        type: 'applied',
        object: slice(
          of,
          hosts.map(({ host, conditions: change }) => endpoint(`${ip6 ? 'fd00:244::' : '10.244.0.'}${host}`, change)),
          {
            suffix: `${ip6 ? 'six' : 'four'}${second ? '-2' : ''}`,
            ports: [{ name: '', protocol: udp ? 'UDP' : 'TCP', port: 8080 }],
          },
        ),
      },
    })),
);
