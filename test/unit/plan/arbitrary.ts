import fc from 'fast-check';
import type {
  Endpoint,
  EndpointPort,
  EndpointSlice,
  ObjectMeta,
  Service,
  ServicePort,
} from '../../../src/kube/objects/objects.ts';
import type { SourceEvent } from '../../../src/kube/objects/source.ts';
import { HERE } from './build.ts';

// Small pools of values, so that the objects of a history conflict.
const NAMES = ['a', 'b'] as const;
const SLICE_NAMES = ['a-1', 'a-2', 'b-1', 'b-2'] as const;
const EXTERNAL_IPS = ['203.0.113.1', '203.0.113.2', '192.168.0.10', 'fd00:99::1'];
const POD_IPS = { IPv4: ['10.244.0.1', '10.244.0.2', '10.244.0.3'], IPv6: ['fd00:244::1', 'fd00:244::2'] } as const;
const BAD_IPS = ['127.0.0.1', '0.0.0.0', 'fe80::1', 'None', '', 'nonsense'];
const BAD_NUMBERS = [0, -1, 70_000, 1.5, Number.NaN];
const RANGES = ['10.0.0.0/8', '0.0.0.0/0', '::/0', ' 192.168.0.0/16 ', '10.0.0.0', 'nonsense'];

const pick = fc.constantFrom;
const some = <T>(pool: readonly T[], maxLength = 3): fc.Arbitrary<T[]> => fc.array(pick(...pool), { maxLength });
/** Now and then something that cannot be used. */
const mostly = <T>(good: readonly T[], bad: readonly T[]): fc.Arbitrary<T> =>
  fc.oneof({ weight: 9, arbitrary: pick(...good) }, { weight: 1, arbitrary: pick(...bad) });
const protocol = mostly(['TCP', 'TCP', 'UDP', 'SCTP'], ['', 'ICMP']);

function meta(labels: fc.Arbitrary<Record<string, string>>, names: readonly string[]): fc.Arbitrary<ObjectMeta> {
  return fc.record({
    namespace: mostly(['default'], ['']),
    name: pick(...names),
    resourceVersion: fc.nat({ max: 9 }).map(String),
    labels,
    annotations: fc.constant({}),
  });
}

const servicePort: fc.Arbitrary<ServicePort> = fc.record({
  name: pick('', 'x'),
  protocol,
  port: mostly([80, 443, 53], BAD_NUMBERS),
  nodePort: mostly([0, 0, 30_080, 30_053], [70_000]),
});

export const anyService: fc.Arbitrary<Service> = fc.record({
  meta: meta(
    mostly<Record<string, string>>([{}, { other: 'y' }], [{ 'service.kubernetes.io/service-proxy-name': 'x' }]),
    NAMES,
  ),
  type: mostly(['ClusterIP', 'NodePort', 'LoadBalancer', 'LoadBalancer'], ['ExternalName', '']),
  clusterIP: mostly(['10.96.0.1', '10.96.0.2', 'fd00::1'], BAD_IPS),
  clusterIPs: fc.oneof(
    { weight: 4, arbitrary: pick([], ['10.96.0.1'], ['10.96.0.2', 'fd00::1'], ['fd00::2', '10.96.0.1']) },
    { weight: 1, arbitrary: some(BAD_IPS) },
  ),
  ipFamilies: mostly<string[]>([[]], [['IPv4'], ['IPv6'], ['IPv4', 'IPv6'], ['IPv6', 'IPv4']]),
  externalIPs: fc.array(mostly(EXTERNAL_IPS, BAD_IPS), { maxLength: 2 }),
  ports: fc.array(servicePort, { minLength: 1, maxLength: 4, size: 'max' }),
  sessionAffinity: pick('None', 'ClientIP'),
  affinityTimeoutSeconds: pick(60, 10_800, 0, -5, Number.NaN),
  internalTrafficPolicy: pick('Cluster', 'Local', ''),
  externalTrafficPolicy: pick('Cluster', 'Local', ''),
  healthCheckNodePort: pick(0, 32_000, 70_000),
  loadBalancerSourceRanges: some(RANGES),
  loadBalancerIngress: fc.array(
    fc.record({ ip: mostly(EXTERNAL_IPS, BAD_IPS), ipMode: mostly(['VIP'], ['Proxy']) }, { requiredKeys: ['ip'] }),
    { maxLength: 2 },
  ),
});

const endpoint = (pool: readonly string[]): fc.Arbitrary<Endpoint> =>
  fc.record({
    address: mostly(pool, ['', ...BAD_IPS]),
    nodeName: pick(HERE, 'node-b', ''),
    zone: pick('', 'zone-a'),
    ready: mostly([true], [false]),
    serving: mostly([true], [false]),
    terminating: mostly([false], [true]),
    ownPod: mostly([false], [true]),
    hintZones: some(['zone-a', 'zone-b'], 2),
    hintNodes: some([HERE, 'node-b'], 2),
  });

const endpointPort: fc.Arbitrary<EndpointPort> = fc.oneof(
  { weight: 9, arbitrary: fc.record({ name: pick('', 'x'), protocol, port: mostly([8080, 5353], BAD_NUMBERS) }) },
  { weight: 1, arbitrary: fc.record({ name: fc.constant(''), protocol }) },
);

function slicesOf(addressType: 'IPv4' | 'IPv6', said: string): fc.Arbitrary<EndpointSlice> {
  return fc.record({
    meta: meta(
      mostly<Record<string, string>>(
        NAMES.map((name) => ({ 'kubernetes.io/service-name': name })),
        [{}],
      ),
      SLICE_NAMES,
    ),
    addressType: fc.constant(said),
    endpoints: fc.array(endpoint(POD_IPS[addressType]), { maxLength: 5, size: 'max' }),
    ports: fc.array(endpointPort, { minLength: 1, maxLength: 4, size: 'max' }),
  });
}

export const anySlice: fc.Arbitrary<EndpointSlice> = fc.oneof(
  { weight: 6, arbitrary: slicesOf('IPv4', 'IPv4') },
  { weight: 4, arbitrary: slicesOf('IPv6', 'IPv6') },
  { weight: 1, arbitrary: slicesOf('IPv4', 'IPv6') },
  { weight: 1, arbitrary: slicesOf('IPv6', 'FQDN') },
);

const deletion = pick(...NAMES, ...SLICE_NAMES).map((name) => ({
  type: 'deleted' as const,
  object: { namespace: 'default', name },
}));

const applied = <T>(object: T): { readonly type: 'applied'; readonly object: T } => ({ type: 'applied', object });
const replaced = <T>(objects: readonly T[]): { readonly type: 'replaced'; readonly objects: readonly T[] } => ({
  type: 'replaced',
  objects,
});

export const anyEvent: fc.Arbitrary<SourceEvent> = fc.oneof(
  { weight: 5, arbitrary: anyService.map((object): SourceEvent => ({ kind: 'service', event: applied(object) })) },
  {
    weight: 10,
    arbitrary: anySlice.map((object): SourceEvent => ({ kind: 'endpoint-slice', event: applied(object) })),
  },
  { weight: 1, arbitrary: deletion.map((event): SourceEvent => ({ kind: 'service', event })) },
  { weight: 1, arbitrary: deletion.map((event): SourceEvent => ({ kind: 'endpoint-slice', event })) },
  {
    weight: 1,
    arbitrary: fc
      .array(anyService, { minLength: 1, maxLength: 4 })
      .map((objects): SourceEvent => ({ kind: 'service', event: replaced(objects) })),
  },
  {
    weight: 1,
    arbitrary: fc
      .array(anySlice, { minLength: 1, maxLength: 6, size: 'max' })
      .map((objects): SourceEvent => ({ kind: 'endpoint-slice', event: replaced(objects) })),
  },
);
