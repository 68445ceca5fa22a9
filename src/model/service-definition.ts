import type { Service, ServicePort } from '../kube/objects/objects.ts';
import { type Cidr, compareCidr, parseCidr } from '../base/cidr.ts';
import { EMPTY, trimCapacity } from '../base/trim-capacity.ts';
import { type IpAddress, compareIp, familyLabel, familyOf } from '../base/ip.ts';
import type { NamespacedName } from '../base/service/names.ts';
import { type Port, toPort } from '../base/port.ts';
import { isProtocol } from '../base/protocol.ts';
import type { ServiceAnnotation } from '../base/service/service-annotations.ts';
import { isOfAnotherProxy } from '../base/well-known-labels.ts';
import { type AddressUse, usableAddress } from './addresses.ts';
import { type ReadAnnotations, readAnnotations } from './read-annotations.ts';
import type { ServiceDefinition, ServicePortDefinition } from './service-model.ts';
import { parseTime } from './trigger-time.ts';
import { Warnings, quoted } from './warnings.ts';

/** Maximum length of a port name, which is a DNS label. */
const MAX_PORT_NAME = 63;

/** The API server's default and maximum of the session affinity timeout. */
const DEFAULT_AFFINITY_SECONDS = 10_800;
const MAX_AFFINITY_SECONDS = 86_400;

/** Whether this proxy serves the Service: not headless, not of type ExternalName, not assigned to another proxy. */
export function isForUs(service: Service): boolean {
  const primary = service.clusterIP === '' ? (service.clusterIPs[0] ?? '') : service.clusterIP;
  return (
    primary !== '' && primary !== 'None' && service.type !== 'ExternalName' && !isOfAnotherProxy(service.meta.labels)
  );
}

/**
 * Validates a Service for which isForUs() returns true.
 *
 * @param permitted the annotations that a Service may use
 */
export function defineService(
  name: NamespacedName,
  service: Service,
  permitted: ReadonlySet<ServiceAnnotation>,
): ServiceDefinition {
  return withAnnotations(defineSpec(name, service), readAnnotations(service, permitted));
}

function defineSpec(name: NamespacedName, service: Service): ServiceDefinition {
  const warnings = new Warnings();
  const clusterIps = clusterAddresses(service, warnings);
  const ofFamilies = (address: IpAddress, use: AddressUse): boolean => {
    if (clusterIps.some((clusterIp) => familyOf(clusterIp) === familyOf(address))) return true;
    warnings.add(
      'wrong-family',
      `${use} is ${familyLabel(familyOf(address))}, but there is no cluster IP of that family: ignored`,
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
  const createdAt = creationTime(service);
  return {
    name,
    ...(createdAt === undefined ? {} : { createdAt }),
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
    ...(service.measured === true ? { measured: true } : {}),
    warnings: warnings.list(),
  };
}

/** Each annotation that is ignored has a warning of its own. */
function withAnnotations(definition: ServiceDefinition, annotations: ReadAnnotations | undefined): ServiceDefinition {
  if (annotations === undefined) return definition;
  const problems = annotations.asked.flatMap(({ problem }) => problem ?? []);
  return { ...definition, ...annotations, warnings: [...definition.warnings, ...problems] };
}

/** Returns the creation time in whole seconds since 1970, which is the resolution of the API. */
function creationTime({ creationTimestamp }: Service): number | undefined {
  const time = creationTimestamp === undefined ? undefined : parseTime(creationTimestamp);
  return time === undefined ? undefined : Math.floor(time / 1_000);
}

function clusterAddresses(service: Service, warnings: Warnings): readonly IpAddress[] {
  const texts = service.clusterIPs.length > 0 ? service.clusterIPs : [service.clusterIP];
  const found: IpAddress[] = [];
  texts.forEach((text, index) => {
    const address = usableAddress(text, 'cluster IP', warnings);
    if (address === undefined) return;
    const label = familyLabel(familyOf(address));
    if (service.ipFamilies.length > 0 && service.ipFamilies[index] !== label) {
      warnings.add('wrong-family', `cluster IP ${quoted(text)} is not of the family in ipFamilies: ignored`);
    } else if (found.some((other) => familyOf(other) === familyOf(address))) {
      warnings.add('duplicate-address', `cluster IP ${quoted(text)} is the second of its family: ignored`);
    } else found.push(address);
  });
  return trimCapacity(found.sort(compareIp));
}

function distinctAddresses(
  texts: readonly string[],
  use: AddressUse,
  warnings: Warnings,
  accept: (address: IpAddress) => boolean,
): readonly IpAddress[] {
  if (texts.length === 0) return EMPTY;
  const found = new Set<IpAddress>();
  for (const text of texts) {
    const address = usableAddress(text, use, warnings);
    if (address === undefined || !accept(address)) continue;
    if (found.has(address)) warnings.add('duplicate-address', `${use} ${quoted(text)} is listed twice`);
    else found.add(address);
  }
  return trimCapacity([...found].sort(compareIp));
}

/** Returns the ingress IPs except those with ipMode Proxy, whose traffic must reach the actual load balancer. */
function virtualIngressIps(service: Service): string[] {
  return service.loadBalancerIngress.filter(({ ipMode = 'VIP' }) => ipMode === 'VIP').map(({ ip }) => ip);
}

const NO_SOURCE_RANGES = { sourceRanges: EMPTY, sourceRangeUnreadable: false } as const;

function readSourceRanges(
  service: Service,
  warnings: Warnings,
): Pick<ServiceDefinition, 'sourceRanges' | 'sourceRangeUnreadable'> {
  const texts = service.loadBalancerSourceRanges;
  if (texts.length === 0) return NO_SOURCE_RANGES;
  const ranges: Cidr[] = [];
  let unreadable = false;
  for (const text of texts) {
    // The API allows spaces around a CIDR.
    const range = parseCidr(text.trim());
    if (range !== undefined) ranges.push(range);
    else {
      unreadable = true;
      warnings.add(
        'invalid-source-range',
        `load balancer source range ${quoted(text)} is not a valid CIDR: no client matches it`,
      );
    }
  }
  ranges.sort(compareCidr);
  const distinct = ranges.filter((range, index) => index === 0 || compareCidr(range, ranges[index - 1] ?? range) !== 0);
  return { sourceRanges: trimCapacity(distinct), sourceRangeUnreadable: unreadable };
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
      `healthCheckNodePort ${service.healthCheckNodePort} is not a valid port: load balancers cannot check this node`,
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
      warnings.add('duplicate-port', `port ${quoted(port.name)} ${number} is listed twice: the second one is ignored`);
      continue;
    }
    names.add(name);
    numbers.add(number);
    defined.push(definition);
  }
  return trimCapacity(defined.sort((a, b) => a.port - b.port || (a.protocol < b.protocol ? -1 : 1)));
}

function definePort(port: ServicePort, warnings: Warnings): ServicePortDefinition | undefined {
  const number = toPort(port.port);
  const { name, protocol } = port;
  if (number === undefined || !isProtocol(protocol) || name.length > MAX_PORT_NAME) {
    warnings.add('invalid-port', `port ${quoted(name)} ${port.port} ${quoted(protocol)} cannot be served: ignored`);
    return undefined;
  }
  if (port.nodePort === 0) return { name, protocol, port: number };
  const nodePort = toPort(port.nodePort);
  if (nodePort !== undefined) return { name, protocol, port: number, nodePort };
  warnings.add('invalid-node-port', `node port ${port.nodePort} of port ${quoted(name)} is not a valid port: ignored`);
  return { name, protocol, port: number };
}
