import fc from 'fast-check';
import type { Service } from '../../src/kube/objects/objects.ts';
import type { SourceEvent } from '../../src/kube/objects/source.ts';
import { endpoint, meta, port, service, slice } from '../support/objects.ts';

const NAMES = ['a', 'b', 'c', 'd', 'e', 'f', 'kubernetes'];
const TYPES = ['ClusterIP', 'NodePort', 'LoadBalancer', 'LoadBalancer', 'ExternalName'];
const PROTOCOLS = ['TCP', 'UDP', 'SCTP'];
const RANGES = ['198.51.100.0/24', '0.0.0.0/0', '192.168.9.0/24', '203.0.113.3/32', 'fd00:5::/64', '::/0', 'nonsense'];

/** Cluster IPs and addresses of the node, which a Service may claim as external IPs. */
const CLAIMED = ['10.96.0.1', '10.96.0.2', 'fd00:96::1', '192.168.9.1', '192.168.9.2', 'fd00:9::1'];
const EXTERNAL = ['203.0.113.0', '203.0.113.1', 'fd00:13::', ...CLAIMED];
const INGRESS = ['203.0.113.1', '203.0.113.3', 'fd00:13::1', ...CLAIMED];
const NODE_PORTS = [0, 30_080, 30_081];
const HEALTH_PORTS = [32_000, 32_001];

/** A Service of any kind and family. Several often claim the same address and port. */
function anyServiceOf(name: string): fc.Arbitrary<Service> {
  const anyPort = fc.record({
    number: fc.constantFrom(80, 81, 30_080),
    protocol: fc.constantFrom(...PROTOCOLS),
    nodePort: fc.constantFrom(...NODE_PORTS),
  });
  return fc
    .record({
      families: fc.constantFrom([4], [6], [4, 6], [6, 4]),
      ports: fc.uniqueArray(anyPort, { minLength: 1, maxLength: 3, selector: (one) => `${one.protocol}${one.number}` }),
      external: fc.subarray(EXTERNAL),
      ingress: fc.subarray(INGRESS),
      ranges: fc.oneof(fc.constant([]), fc.subarray(RANGES)),
      affinity: fc.boolean(),
      internalLocal: fc.boolean(),
      externalLocal: fc.boolean(),
      type: fc.constantFrom(...TYPES),
      healthPort: fc.constantFrom(...HEALTH_PORTS),
      createdAt: fc.constantFrom('', '2024-05-01T10:00:00Z', '2024-05-01T10:00:01Z', 'yesterday'),
    })
    .map((value) => {
      const last = NAMES.indexOf(name) + 1;
      const clusterIPs = value.families.map((family) => (family === 4 ? `10.96.0.${last}` : `fd00:96::${last}`));
      return service(name, clusterIPs[0] ?? '', {
        clusterIPs,
        ipFamilies: value.families.map((family) => `IPv${family}`),
        ...(value.createdAt === '' ? {} : { creationTimestamp: value.createdAt }),
        type: value.type,
        ports: value.ports.map(({ number, protocol, nodePort }) =>
          port(number, { name: `${protocol}-${number}`.toLowerCase(), protocol, nodePort }),
        ),
        externalIPs: value.external,
        loadBalancerIngress: value.ingress.map((ip) => ({ ip })),
        loadBalancerSourceRanges: value.ranges,
        sessionAffinity: value.affinity ? 'ClientIP' : 'None',
        ...(value.affinity ? { affinityTimeoutSeconds: 600 } : {}),
        internalTrafficPolicy: value.internalLocal ? 'Local' : 'Cluster',
        externalTrafficPolicy: value.externalLocal ? 'Local' : 'Cluster',
        healthCheckNodePort: value.healthPort,
      });
    });
}

const name = fc.constantFrom(...NAMES);

const anyEndpoint = fc
  .record({
    host: fc.integer({ min: 1, max: 6 }),
    here: fc.boolean(),
    state: fc.constantFrom('ready', 'serving', 'gone'),
  })
  .map(({ host, here, state }) => ({
    host,
    change: {
      nodeName: here ? 'node-a' : 'node-b',
      ready: state === 'ready',
      serving: state !== 'gone',
      terminating: state !== 'ready',
    },
  }));

/** An EndpointSlice of one family, with all or some of the ports that Services use. */
const anySlice: fc.Arbitrary<SourceEvent> = fc
  .record({
    of: name,
    ip6: fc.boolean(),
    endpoints: fc.uniqueArray(anyEndpoint, { maxLength: 4, selector: ({ host }) => host }),
    protocols: fc.subarray(PROTOCOLS, { minLength: 1 }),
  })
  .map(({ of, ip6, endpoints, protocols }) => ({
    kind: 'endpoint-slice',
    event: {
      type: 'applied',
      object: slice(
        of,
        endpoints.map(({ host, change }) => endpoint(`${ip6 ? 'fd00:244::' : '10.244.0.'}${host}`, change)),
        {
          suffix: ip6 ? 'six' : 'four',
          addressType: ip6 ? 'IPv6' : 'IPv4',
          ports: protocols.flatMap((protocol) =>
            [80, 81, 30_080].map((number) => ({
              name: `${protocol}-${number}`.toLowerCase(),
              protocol,
              port: 8000 + (number % 100),
            })),
          ),
        },
      ),
    },
  }));

/** One change of one object. */
export const anyChange: fc.Arbitrary<SourceEvent> = fc.oneof(
  {
    weight: 4,
    arbitrary: name
      .chain((of) => anyServiceOf(of))
      .map((object): SourceEvent => ({ kind: 'service', event: { type: 'applied', object } })),
  },
  {
    weight: 1,
    arbitrary: name.map((of): SourceEvent => ({ kind: 'service', event: { type: 'deleted', object: meta(of) } })),
  },
  { weight: 3, arbitrary: anySlice },
  {
    weight: 1,
    arbitrary: fc.tuple(name, fc.constantFrom('four', 'six')).map(([of, suffix]): SourceEvent => ({
      kind: 'endpoint-slice',
      event: { type: 'deleted', object: meta(`${of}-${suffix}`) },
    })),
  },
);
