import {
  type Case,
  type CaseConfig,
  type EndpointObject,
  type Objects,
  type ServiceObject,
  type ServicePortObject,
  type SliceObject,
  objectsAt,
  servicesOf,
  slicesOf,
} from './case.ts';

/** A Service port at one of its addresses. */
export interface Frontend {
  readonly service: ServiceObject;
  readonly port: ServicePortObject;
  readonly kind: 'cluster IP' | 'external IP' | 'load balancer IP' | 'node port';
  readonly address: string;
  readonly number: number;
}

/** Every Service port at each of its addresses, of the Services that kube-proxy selects after a step. */
export function frontendsAt(given: Case, step: number): Frontend[] {
  const nodeAddresses = Object.values(given.interfaces).flatMap((each) => each.map((text) => text.split('/')[0] ?? ''));
  return frontendsOfServices(objectsAt(given, step), given.config, nodeAddresses);
}

/** Every Service port at each of its addresses, of the Services among these objects that kube-proxy selects. */
export function frontendsOfServices(
  objects: Objects,
  { featureGates: { AllowServiceExternalIPs: externalIps = true } }: Pick<CaseConfig, 'featureGates'>,
  nodeAddresses: readonly string[],
): Frontend[] {
  return servicesOf(objects)
    .filter(isSelected)
    .flatMap((service) =>
      service.spec.ports.flatMap((port) => {
        const at = (kind: Frontend['kind'], number: number, addresses: readonly string[]): Frontend[] =>
          addresses
            .filter((address) => hasFamilyOf(service, address))
            .map((address) => ({ service, port, kind, address, number }));
        return [
          ...at('cluster IP', port.port, service.spec.clusterIPs ?? []),
          ...at('external IP', port.port, externalIps ? (service.spec.externalIPs ?? []) : []),
          ...at('load balancer IP', port.port, loadBalancerIps(service)),
          ...(port.nodePort === undefined ? [] : at('node port', port.nodePort, nodeAddresses)),
        ];
      }),
    );
}

/** Whether kube-proxy selects a Service, and it has addresses of a family. */
export function servesFamily(service: ServiceObject, family: 'IPv4' | 'IPv6'): boolean {
  return isSelected(service) && service.spec.ipFamilies?.includes(family) === true;
}

function isSelected({ metadata, spec }: ServiceObject): boolean {
  const named = metadata.labels?.['service.kubernetes.io/service-proxy-name'] !== undefined;
  return !named && spec.type !== 'ExternalName' && spec.clusterIP !== 'None';
}

function hasFamilyOf({ spec }: ServiceObject, address: string): boolean {
  return spec.ipFamilies?.some((family) => hasFamily(address, family)) === true;
}

/** Also false for text that is not an address. */
export function hasFamily(address: string, family: 'IPv4' | 'IPv6'): boolean {
  return address.includes(family === 'IPv6' ? ':' : '.');
}

function loadBalancerIps({ status }: ServiceObject): string[] {
  const ingress = status?.loadBalancer.ingress ?? [];
  return ingress.flatMap(({ ip, ipMode = 'VIP' }) => (ip !== undefined && ipMode === 'VIP' ? [ip] : []));
}

/** The endpoints at an address and port, of all slices of the Service that kube-proxy selects. */
export function endpointsAt(
  objects: Objects,
  service: ServiceObject,
  port: ServicePortObject,
  at: { readonly address: string; readonly number: number },
): EndpointObject[] {
  return selectedSlices(objects, service).flatMap(({ ports, endpoints }) => {
    const isNumber = ports.some(
      (each) => each.name === port.name && each.protocol === port.protocol && each.port === at.number,
    );
    return isNumber ? endpoints.filter(({ addresses }) => addresses[0] === at.address) : [];
  });
}

export function selectedSlices(objects: Objects, { metadata }: ServiceObject): SliceObject[] {
  return slicesOf(objects, metadata).filter(isSelectedSlice);
}

export function isSelectedSlice({ metadata: { labels } }: SliceObject): boolean {
  return labels?.['service.kubernetes.io/headless'] === undefined;
}
