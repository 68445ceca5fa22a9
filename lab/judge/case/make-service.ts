import type { ServiceObject, ServicePortObject } from './case.ts';
import { NODE_IPS } from './make-node.ts';
import type { Random } from './random.ts';

/** Maximum number of Services in a case. Addresses and ports of a Service follow from its index. */
export const MOST_SERVICES = 6;

const EXTERNAL_IPS = ['203.0.113.1', '203.0.113.2', '203.0.113.3', '2001:db8:cafe::1', '2001:db8:cafe::2', ...NODE_IPS];
const INGRESS_IPS = ['203.0.113.10', '203.0.113.11', '203.0.113.1', '2001:db8:cafe::10', '192.0.2.10'];
const SOURCE_RANGES = [
  '198.51.100.0/24',
  '192.0.2.0/24',
  '192.0.2.10/32',
  '0.0.0.0/0',
  '2001:db8:9::/64',
  '::/0',
  ' 10.0.0.0/8 ',
  '2001:db8:1::/48',
  '10.1.2.3/8',
];

/** A Service as the API server stores it. The same index gives the same name and cluster IPs, with other settings. */
export function makeService(index: number, random: Random): ServiceObject {
  const type = random.pick(['ClusterIP', 'ClusterIP', 'NodePort', 'NodePort', 'LoadBalancer', 'LoadBalancer'] as const);
  const metadata = {
    namespace: namespaceOf(index),
    name: `s${index}`,
    creationTimestamp: `2026-01-01T00:00:0${index}Z`,
    labels: labelsOf(random),
    annotations: random.percent(5) ? { 'service.kubernetes.io/topology-mode': 'Auto' } : {},
  };
  const ports = portsOf(index, type, random);
  if (random.percent(3)) {
    const spec = { type: 'ExternalName' as const, externalName: 'example.org', ports };
    return { apiVersion: 'v1', kind: 'Service', metadata, spec };
  }
  const families = random.pick([['IPv4'], ['IPv4'], ['IPv6'], ['IPv4', 'IPv6'], ['IPv6', 'IPv4']] as const);
  const headless = type === 'ClusterIP' && random.percent(5);
  const clusterIPs = headless ? ['None'] : families.map((family) => clusterIpOf(index, family));
  const externalLocal = type !== 'ClusterIP' && random.percent(40);
  const spec = {
    type,
    clusterIP: clusterIPs[0] ?? '',
    clusterIPs,
    ipFamilies: families,
    ports,
    externalIPs: random.percent(30) ? random.some(EXTERNAL_IPS, 25) : [],
    ...affinityOf(random),
    internalTrafficPolicy: random.percent(25) ? ('Local' as const) : ('Cluster' as const),
    ...(type === 'ClusterIP'
      ? {}
      : { externalTrafficPolicy: externalLocal ? ('Local' as const) : ('Cluster' as const) }),
    ...(type === 'LoadBalancer' && externalLocal ? { healthCheckNodePort: 32_000 + index } : {}),
    ...(type === 'LoadBalancer' ? { loadBalancerSourceRanges: rangesOf(random) } : {}),
    ...(random.percent(15)
      ? { trafficDistribution: random.pick(['PreferClose', 'PreferSameZone', 'PreferSameNode']) }
      : {}),
    publishNotReadyAddresses: random.percent(10),
  };
  const status = type === 'LoadBalancer' ? { status: { loadBalancer: { ingress: ingressOf(random) } } } : {};
  return { apiVersion: 'v1', kind: 'Service', metadata, spec, ...status };
}

export function namespaceOf(index: number): string {
  return index % 3 === 2 ? 'other' : 'default';
}

function clusterIpOf(index: number, family: 'IPv4' | 'IPv6'): string {
  return family === 'IPv4' ? `10.96.0.${10 + index}` : `fd00:96::${10 + index}`;
}

/** One to three ports with different names; no two with the same number and protocol. */
function portsOf(index: number, type: ServiceObject['spec']['type'], random: Random): ServicePortObject[] {
  const count = random.pick([1, 1, 2, 3]);
  const allocates = type === 'NodePort' || (type === 'LoadBalancer' && !random.percent(15));
  const taken = new Set<string>();
  const ports: ServicePortObject[] = [];
  for (let at = 0; at < count; at++) {
    const protocol = random.pick(['TCP', 'TCP', 'UDP', 'UDP', 'SCTP'] as const);
    const port = random.pick([80, 53, 443, 8000 + at]);
    if (taken.has(`${protocol} ${port}`)) continue;
    taken.add(`${protocol} ${port}`);
    const name = count === 1 && random.percent(50) ? '' : `p${at}`;
    ports.push({ name, protocol, port, ...(allocates ? { nodePort: 30_000 + index * 10 + at } : {}) });
  }
  return ports;
}

function labelsOf(random: Random): Record<string, string> {
  return {
    ...(random.percent(3) ? { 'service.kubernetes.io/service-proxy-name': 'another' } : {}),
    ...(random.percent(4) ? { 'service.kubernetes.io/headless': '' } : {}),
  };
}

function affinityOf(random: Random): Pick<ServiceObject['spec'], 'sessionAffinity' | 'sessionAffinityConfig'> {
  if (!random.percent(25)) return { sessionAffinity: 'None' };
  const timeoutSeconds = random.pick([10_800, 600, 1, 86_400]);
  return { sessionAffinity: 'ClientIP', sessionAffinityConfig: { clientIP: { timeoutSeconds } } };
}

function rangesOf(random: Random): readonly string[] {
  return random.percent(40) ? random.some(SOURCE_RANGES, 30) : [];
}

function ingressOf(random: Random): Record<string, string>[] {
  return random.some(INGRESS_IPS, 30).map((ip) => {
    if (random.percent(10)) return { hostname: 'lb.example.org' };
    return { ip, ...(random.percent(30) ? { ipMode: random.pick(['VIP', 'Proxy']) } : {}) };
  });
}
