import type { EndpointModel, ServiceModel, ServicePortModel } from '../model/service-model.ts';
import type { Cidr } from '../net/cidr.ts';
import { NOTHING } from '../net/exact.ts';
import { type IpAddress, type IpFamily, familyOf } from '../net/ip.ts';
import type { Port } from '../net/port.ts';
import type { RealServer } from '../state/real-server.ts';
import type { VirtualServer } from '../state/virtual-server.ts';
import { persistence } from './affinity.ts';
import { nodePortAddresses } from './node-port-addresses.ts';
import type { NodeView, PlanConfig } from './plan-config.ts';
import { only } from './only.ts';
import type { PlanDraft } from './plan-draft.ts';
import { schedulerFlags } from './scheduler-flags.ts';
import type { PlannedUdp } from './service-plan.ts';
import { type Destinations, type Place, chooseDestinations } from './traffic-policy.ts';
import { answeringEndpoints } from './udp.ts';

/** One port of a service as one family sees it. */
export interface PortView extends Pick<ServicePortModel, 'protocol' | 'port'> {
  readonly nodePort: Port | undefined;
  readonly endpoints: readonly EndpointModel[];
  readonly destinations: Destinations;
  /** For UDP ports only: empty else. */
  readonly answering: PlannedUdp['answering'];
}

/** A service as one family sees it: what every rule starts from. */
export interface FamilyView {
  readonly family: IpFamily;
  readonly service: ServiceModel;
  readonly node: NodeView;
  readonly clusterIp: IpAddress;
  readonly externalIps: readonly IpAddress[];
  readonly loadBalancerIps: readonly IpAddress[];
  /** Where node ports are served. */
  readonly nodeAddresses: readonly IpAddress[];
  readonly ports: readonly PortView[];
  /** Addresses in these are neither bound nor closed. */
  readonly unboundCidrs: readonly Cidr[];
  /** Addresses in these are local by a route of the whole network. */
  readonly localRouteCidrs: readonly Cidr[];
  /** What all virtual servers of the service share. */
  readonly settings: Pick<VirtualServer, 'scheduler' | 'flags' | 'timeout' | 'prefix'>;
}

/** undefined when the service has no cluster IP of this family: then it is not served there at all. */
export function familyView(
  service: ServiceModel,
  family: IpFamily,
  node: NodeView,
  config: PlanConfig,
): FamilyView | undefined {
  const ofFamily = (address: IpAddress): boolean => familyOf(address) === family;
  const clusterIp = service.clusterIps.find(ofFamily);
  if (clusterIp === undefined) return undefined;
  const externalIps = only(service.externalIps, ofFamily);
  const loadBalancerIps = only(service.loadBalancerIps, ofFamily);
  const hasAddress = externalIps.length > 0 || loadBalancerIps.length > 0;
  const hasNodePort = service.ports.some(({ nodePort }) => nodePort !== undefined);
  const { flags, timeout } = persistence(service);
  const place = { nodeName: config.nodeName, zone: node.zone };
  return {
    family,
    service,
    node,
    clusterIp,
    externalIps,
    loadBalancerIps,
    nodeAddresses: hasNodePort ? nodePortAddresses(family, node, config) : NOTHING,
    ports: service.ports.map((port) => portView(service, port, family, hasAddress, place)),
    unboundCidrs: config.unboundCidrs ?? NOTHING,
    localRouteCidrs: config.localRouteCidrs ?? NOTHING,
    settings: {
      scheduler: config.scheduler,
      flags: flags | schedulerFlags(config.scheduler),
      timeout,
      prefix: family === 4 ? 32 : 128,
    },
  };
}

function portView(
  service: ServiceModel,
  { protocol, port, nodePort, endpoints: both }: ServicePortModel,
  family: IpFamily,
  hasAddress: boolean,
  place: Place,
): PortView {
  const endpoints = only(both, ({ address }) => familyOf(address) === family);
  return {
    protocol,
    port,
    nodePort,
    endpoints,
    destinations: chooseDestinations(service, endpoints, hasAddress || nodePort !== undefined, place),
    answering: protocol === 'UDP' ? answeringEndpoints(endpoints) : NOTHING,
  };
}

/** Adds the virtual server of one port at one address. */
export function serve(
  draft: PlanDraft,
  view: FamilyView,
  { protocol, answering }: PortView,
  at: { readonly address: IpAddress; readonly port: Port },
  realServers: readonly RealServer[],
): void {
  const { address, port } = at;
  const { scheduler, flags, timeout, prefix } = view.settings;
  draft.addVirtualServer(
    { virtualServer: { address, port, protocol, scheduler, flags, timeout, prefix }, realServers },
    answering,
  );
}
