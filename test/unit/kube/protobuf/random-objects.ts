import type { Random } from '../../../../lab/judge/case/random.ts';

/** Random objects in the form of their JSON: valid types, any values, and fields that no proxy reads. */
type Value<T> = (random: Random) => T;

type Json = Readonly<Record<string, unknown>>;

const WORDS = [
  '',
  'a',
  'web',
  'Pod',
  'shop',
  'default',
  'node-17',
  'eu-central-1a',
  'TCP',
  'ClientIP',
  'é',
  '日本',
  '🙂',
];
const KEYS = [
  'app',
  '__proto__',
  'constructor',
  'kubernetes.io/service-name',
  'service.kubernetes.io/service-proxy-name',
  'service.kubernetes.io/headless',
  'topology.kubernetes.io/zone',
  'endpoints.kubernetes.io/last-change-trigger-time',
  'kube-ipvs-proxy/scheduler',
  'kube-ipvs-proxy/weights',
];

const word: Value<string> = (random) => random.pick(WORDS);
const flag: Value<boolean> = (random) => random.percent(50);

const text: Value<string> = (random) => {
  if (random.percent(80)) return word(random);
  const characters = Array.from({ length: random.below(80) }, () => random.below(0x250));
  return String.fromCodePoint(...characters);
};

const address: Value<string> = (random) =>
  random.percent(80) ? `10.${random.below(256)}.${random.below(256)}.${random.below(256)}` : text(random);

const int32: Value<number> = (random) => (random.percent(50) ? random.below(65_536) : random.below(2 ** 32) - 2 ** 31);
const int64: Value<number> = (random) => (random.percent(50) ? 1 : -1) * random.below(2 ** 53);

/** RFC 3339, from year 1 to 9999. */
const time: Value<string | null> = (random) => {
  const seconds = -62_135_596_800 + random.below(315_537_897_600);
  return random.percent(20) ? null : new Date(seconds * 1000).toISOString().replace('.000Z', 'Z');
};

/** Sorted, as Go sorts it in both encodings. */
const map: Value<Json> = (random) => {
  const entries = list((of): [string, string] => [of.percent(80) ? of.pick(KEYS) : text(of), word(of)])(random);
  return Object.fromEntries(entries.toSorted(([a], [b]) => (a < b ? -1 : 1)));
};

function list<T>(item: Value<T>): Value<T[]> {
  return (random) => Array.from({ length: random.below(5) }, () => item(random));
}

/** Each field is absent now and then. */
function some(fields: Readonly<Record<string, Value<unknown>>>): Value<Json> {
  return (random) => {
    const present = Object.entries(fields).filter(() => random.percent(70));
    return Object.fromEntries(present.map(([name, value]) => [name, value(random)]));
  };
}

/** Go always writes these fields. */
function all(fields: Readonly<Record<string, Value<unknown>>>): Value<Json> {
  return (random) => Object.fromEntries(Object.entries(fields).map(([name, value]) => [name, value(random)]));
}

const metadata = some({
  name: text,
  generateName: text,
  namespace: text,
  uid: text,
  resourceVersion: text,
  generation: int64,
  creationTimestamp: time,
  deletionTimestamp: time,
  deletionGracePeriodSeconds: int64,
  labels: map,
  annotations: map,
  finalizers: list(text),
  ownerReferences: list(some({ kind: text, name: text, controller: flag })),
  managedFields: list(some({ manager: text, time, fieldsV1: () => ({ 'f:spec': {} }) })),
});

const service = some({
  metadata,
  spec: some({
    ports: list(
      some({
        name: text,
        protocol: text,
        port: int32,
        targetPort: (random) => (flag(random) ? int32(random) : text(random)),
        nodePort: int32,
        appProtocol: text,
      }),
    ),
    selector: map,
    clusterIP: address,
    type: text,
    externalIPs: list(address),
    sessionAffinity: text,
    loadBalancerIP: address,
    loadBalancerSourceRanges: list(address),
    externalTrafficPolicy: text,
    healthCheckNodePort: int32,
    publishNotReadyAddresses: flag,
    sessionAffinityConfig: some({ clientIP: some({ timeoutSeconds: int32 }) }),
    ipFamilyPolicy: text,
    clusterIPs: list(address),
    ipFamilies: list(text),
    internalTrafficPolicy: text,
    trafficDistribution: text,
  }),
  status: some({
    loadBalancer: some({
      ingress: list(
        some({ ip: address, hostname: text, ipMode: text, ports: list(some({ port: int32, protocol: text })) }),
      ),
    }),
    conditions: list(some({ type: text, lastTransitionTime: time, observedGeneration: int64 })),
  }),
});

const hints = list(all({ name: text }));

const endpointSlice = some({
  metadata,
  addressType: text,
  endpoints: list(
    some({
      addresses: list(address),
      conditions: some({ ready: flag, serving: flag, terminating: flag }),
      hostname: text,
      targetRef: some({ kind: word, namespace: word, name: text, uid: text }),
      deprecatedTopology: map,
      nodeName: text,
      zone: text,
      hints: some({ forZones: hints, forNodes: hints }),
    }),
  ),
  ports: list(some({ name: text, protocol: text, port: int32, appProtocol: text })),
});

const node = some({
  metadata,
  spec: some({
    podCIDR: address,
    podCIDRs: list(address),
    providerID: text,
    unschedulable: flag,
    taints: list(all({ key: text, value: text, effect: text })),
  }),
  status: some({
    phase: text,
    addresses: list(all({ type: text, address })),
    images: list(some({ names: list(text), sizeBytes: int64 })),
    volumesInUse: list(text),
  }),
});

export const RANDOM_OBJECTS: Readonly<Record<'Service' | 'EndpointSlice' | 'Node', Value<Json>>> = {
  Service: service,
  EndpointSlice: endpointSlice,
  Node: node,
};
