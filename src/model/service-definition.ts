import type { Service, ServicePort } from '../kube/objects.ts';
import { type Cidr, compareCidr, parseCidr } from '../net/cidr.ts';
import { NOTHING, exact } from '../net/exact.ts';
import { type IpAddress, compareIp, familyLabel, familyOf } from '../net/ip.ts';
import type { NamespacedName } from '../net/names.ts';
import { type Port, toPort } from '../net/port.ts';
import { type AddressUse, usableAddress } from './addresses.ts';
import { toProtocol } from './protocols.ts';
import type { ServiceDefinition, ServicePortDefinition } from './service-model.ts';
import { Warnings, quoted } from './warnings.ts';

/** Services with this label belong to another proxy. */
const PROXY_NAME_LABEL = 'service.kubernetes.io/service-proxy-name';

/** Names of ports are DNS labels. */
const MAX_PORT_NAME = 63;

/** What the API server fills in, and takes at most (one day). */
const DEFAULT_AFFINITY_SECONDS = 10_800;
const MAX_AFFINITY_SECONDS = 86_400;

/** Headless, of type ExternalName, or another proxy's. */
export function isForUs(service: Service): boolean {
  const primary = service.clusterIP === '' ? (service.clusterIPs[0] ?? '') : service.clusterIP;
  return (
    primary !== '' &&
    primary !== 'None' &&
    service.type !== 'ExternalName' &&
    !Object.hasOwn(service.meta.labels, PROXY_NAME_LABEL)
  );
}

/** Checks a Service that isForUs. */
export function defineService(name: NamespacedName, service: Service): ServiceDefinition {
  const warnings = new Warnings();
  const clusterIps = clusterAddresses(service, warnings);
  const ofFamilies = (address: IpAddress, use: AddressUse): boolean => {
    if (clusterIps.some((clusterIp) => familyOf(clusterIp) === familyOf(address))) return true;
    warnings.add(
      'wrong-family',
      `${use} is ${familyLabel(familyOf(address))}, but there is no such cluster IP: it is left out`,
    );
    return false;
  };
  const addresses = (texts: readonly string[], use: AddressUse): readonly IpAddress[] =>
    distinctAddresses(texts, use, warnings, (address) => ofFamilies(address, use));
  const externalIps = addresses(service.externalIPs, 'external IP');
  const external = service.type === 'NodePort' || service.type === 'LoadBalancer' || externalIps.length > 0;
  const externalLocal = service.externalTrafficPolicy === 'Local' && external;
  const { sourceRanges, sourceRangeUnreadable } = readSourceRanges(service, warnings);
  const healthCheckNodePort = healthCheckPort(service, externalLocal, warnings);
  return {
    name,
    clusterIps,
    externalIps,
    loadBalancerIps: addresses(virtualIngressIps(service), 'load balancer IP'),
    sourceRanges,
    sourceRangeUnreadable,
    affinitySeconds: affinity(service, warnings),
    internalLocal: service.internalTrafficPolicy === 'Local',
    externalLocal,
    ...(healthCheckNodePort === undefined ? {} : { healthCheckNodePort }),
    ports: definePorts(service.ports, warnings),
    warnings: warnings.list(),
  };
}

function clusterAddresses(service: Service, warnings: Warnings): readonly IpAddress[] {
  const texts = service.clusterIPs.length > 0 ? service.clusterIPs : [service.clusterIP];
  const found: IpAddress[] = [];
  texts.forEach((text, index) => {
    const address = usableAddress(text, 'cluster IP', warnings);
    if (address === undefined) return;
    const label = familyLabel(familyOf(address));
    if (service.ipFamilies.length > 0 && service.ipFamilies[index] !== label) {
      warnings.add(
        'wrong-family',
        `cluster IP ${quoted(text)} is not of the family that ipFamilies says: it is left out`,
      );
    } else if (found.some((other) => familyOf(other) === familyOf(address))) {
      warnings.add('duplicate-address', `cluster IP ${quoted(text)} is the second of its family: it is left out`);
    } else found.push(address);
  });
  return exact(found.sort(compareIp));
}

function distinctAddresses(
  texts: readonly string[],
  use: AddressUse,
  warnings: Warnings,
  accept: (address: IpAddress) => boolean,
): readonly IpAddress[] {
  if (texts.length === 0) return NOTHING;
  const found = new Set<IpAddress>();
  for (const text of texts) {
    const address = usableAddress(text, use, warnings);
    if (address === undefined || !accept(address)) continue;
    if (found.has(address)) warnings.add('duplicate-address', `${use} ${quoted(text)} is listed twice`);
    else found.add(address);
  }
  return exact([...found].sort(compareIp));
}

/** Ingresses with ipMode Proxy want their traffic to reach the real load balancer; those with a hostname only have no address. */
function virtualIngressIps(service: Service): string[] {
  return service.loadBalancerIngress.flatMap(({ ip, ipMode }) =>
    ip !== undefined && ip !== '' && (ipMode === undefined || ipMode === 'VIP') ? [ip] : [],
  );
}

const NO_SOURCE_RANGES = { sourceRanges: NOTHING, sourceRangeUnreadable: false } as const;

function readSourceRanges(
  service: Service,
  warnings: Warnings,
): Pick<ServiceDefinition, 'sourceRanges' | 'sourceRangeUnreadable'> {
  const texts = service.loadBalancerSourceRanges;
  if (texts.length === 0) return NO_SOURCE_RANGES;
  const ranges: Cidr[] = [];
  let unreadable = false;
  for (const text of texts) {
    // The API tolerates padding here.
    const range = parseCidr(text.trim());
    if (range !== undefined) ranges.push(range);
    else {
      unreadable = true;
      warnings.add(
        'invalid-source-range',
        `load balancer source range ${quoted(text)} is not a CIDR: it lets nobody in`,
      );
    }
  }
  ranges.sort(compareCidr);
  const distinct = ranges.filter((range, index) => index === 0 || compareCidr(range, ranges[index - 1] ?? range) !== 0);
  return { sourceRanges: exact(distinct), sourceRangeUnreadable: unreadable };
}

function affinity(service: Service, warnings: Warnings): number {
  if (service.sessionAffinity !== 'ClientIP') return 0;
  const seconds = service.affinityTimeoutSeconds;
  if (seconds === undefined) return DEFAULT_AFFINITY_SECONDS;
  if (Number.isInteger(seconds) && seconds >= 1 && seconds <= MAX_AFFINITY_SECONDS) return seconds;
  warnings.add(
    'invalid-affinity-timeout',
    `session affinity of ${seconds} seconds is not within 1 to ${MAX_AFFINITY_SECONDS}: ${DEFAULT_AFFINITY_SECONDS} is used`,
  );
  return DEFAULT_AFFINITY_SECONDS;
}

function healthCheckPort(service: Service, externalLocal: boolean, warnings: Warnings): Port | undefined {
  if (service.type !== 'LoadBalancer' || !externalLocal) return undefined;
  const port = toPort(service.healthCheckNodePort);
  if (port === undefined) {
    warnings.add(
      'invalid-health-check-port',
      `healthCheckNodePort ${service.healthCheckNodePort} is not a port: load balancers cannot ask this node`,
    );
  }
  return port;
}

function definePorts(ports: readonly ServicePort[], warnings: Warnings): readonly ServicePortDefinition[] {
  const names = new Set<string>();
  const numbers = new Set<string>();
  const defined: ServicePortDefinition[] = [];
  for (const port of ports) {
    const definition = definePort(port, warnings);
    if (definition === undefined) continue;
    const { protocol } = definition;
    const name = `${protocol} ${definition.name}`;
    const number = `${protocol} ${definition.port}`;
    if (names.has(name) || numbers.has(number)) {
      warnings.add('duplicate-port', `port ${quoted(port.name)} ${number} is listed twice: the first one counts`);
      continue;
    }
    names.add(name);
    numbers.add(number);
    defined.push(definition);
  }
  return exact(defined.sort((a, b) => a.port - b.port || (a.protocol < b.protocol ? -1 : 1)));
}

function definePort(port: ServicePort, warnings: Warnings): ServicePortDefinition | undefined {
  const number = toPort(port.port);
  const protocol = toProtocol(port.protocol);
  if (number === undefined || protocol === undefined || port.name.length > MAX_PORT_NAME) {
    warnings.add(
      'invalid-port',
      `port ${quoted(port.name)} ${port.port} ${quoted(port.protocol)} cannot be served: it is left out`,
    );
    return undefined;
  }
  const { name } = port;
  if (port.nodePort === 0) return { name, protocol, port: number };
  const nodePort = toPort(port.nodePort);
  if (nodePort !== undefined) return { name, protocol, port: number, nodePort };
  warnings.add('invalid-node-port', `node port ${port.nodePort} of port ${quoted(name)} is not a port: it is left out`);
  return { name, protocol, port: number };
}
