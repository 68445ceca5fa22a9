import type { EndpointObject, ServiceObject, SliceObject } from './case.ts';
import { OUR_NODE } from './make-node.ts';
import type { Random } from './random.ts';

const NODES = [OUR_NODE, OUR_NODE, 'node-1', 'node-2'] as const;
const ZONES = ['zone-a', 'zone-b', 'zone-c'] as const;

/** An EndpointSlice of a Service and a family. The same suffix gives the same name. */
export function makeSlice(
  service: ServiceObject,
  family: 'IPv4' | 'IPv6',
  suffix: string,
  random: Random,
): SliceObject {
  const { namespace, name, creationTimestamp } = service.metadata;
  const count = random.pick([0, 1, 1, 2, 3, 4]);
  // Whether all endpoints have hints, some or none: hints count only if all ready ones have them.
  const hinted = random.pick([0, 0, 0, 85, 100]);
  return {
    apiVersion: 'discovery.k8s.io/v1',
    kind: 'EndpointSlice',
    metadata: {
      namespace,
      name: `${name}-${family.toLowerCase()}-${suffix}`,
      creationTimestamp,
      labels: {
        'kubernetes.io/service-name': name,
        ...(random.percent(3) ? { 'service.kubernetes.io/headless': '' } : {}),
        ...(random.percent(3) ? { 'service.kubernetes.io/service-proxy-name': 'another' } : {}),
      },
    },
    addressType: family,
    ports: portsOf(service, random),
    endpoints: Array.from({ length: count }, () => endpointOf(family, hinted, random)),
  };
}

/** Those of the Service, with a number of their own; now and then one is missing, or has no number. */
function portsOf(service: ServiceObject, random: Random): SliceObject['ports'] {
  return service.spec.ports.flatMap(({ name, protocol, port }) => {
    if (random.percent(5)) return [];
    if (random.percent(2)) return [{ name, protocol }];
    return [{ name, protocol, port: random.pick([8080, 8080, 9090, port]) }];
  });
}

/** From few addresses, so that one address occurs twice, also in two slices. */
function endpointOf(family: 'IPv4' | 'IPv6', hinted: number, random: Random): EndpointObject {
  const host = 2 + random.below(6);
  const nodeName = random.pick(NODES);
  const network = NODES.indexOf(nodeName);
  const network6 = network === 0 ? 'fd00:244' : `fd00:244:0:${network}`;
  const address = family === 'IPv4' ? `10.244.${network}.${host}` : `${network6}::${host}`;
  return {
    addresses: [address],
    conditions: conditionsOf(random),
    ...(random.percent(95) ? { nodeName } : {}),
    ...(random.percent(80) ? { zone: random.pick(ZONES) } : {}),
    ...(random.percent(hinted) ? { hints: hintsOf(random) } : {}),
  };
}

function conditionsOf(random: Random): EndpointObject['conditions'] {
  if (random.percent(60)) return { ready: true, serving: true, terminating: false };
  return random.pick([
    {},
    { ready: true },
    { ready: false },
    { ready: false, serving: false, terminating: false },
    { ready: false, serving: true, terminating: true },
    { ready: false, serving: false, terminating: true },
    { ready: true, serving: true, terminating: true },
    { ready: false, serving: true, terminating: false },
    { ready: true, serving: false, terminating: false },
  ]);
}

function hintsOf(random: Random): NonNullable<EndpointObject['hints']> {
  const names = (values: readonly string[]): { name: string }[] => values.map((name) => ({ name }));
  return {
    ...(random.percent(85) ? { forZones: names(random.some(ZONES, 50)) } : {}),
    ...(random.percent(35) ? { forNodes: names(random.some([OUR_NODE, 'node-1'], 60)) } : {}),
  };
}
