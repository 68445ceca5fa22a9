import type { EndpointModel, ServiceModel, ServicePortModel } from '../model/service-model.ts';
import type { Cidr } from '../base/cidr.ts';
import { EMPTY } from '../base/trim-capacity.ts';
import { type IpAddress, type IpFamily, familyOf } from '../base/ip.ts';
import type { Port } from '../base/port.ts';
import type { Protocol } from '../base/protocol.ts';
import { servicePortName } from '../base/service/service-port-name.ts';
import type { ServiceRequests } from '../base/service/service-requests.ts';
import { FORWARDING, type RealServer, forwardingOf } from '../state/real-server.ts';
import type { AddressTraits } from '../state/address-traits.ts';
import { VS_ONE_PACKET, VS_PERSISTENT } from '../state/virtual-server.ts';
import { nodePortAddresses } from './node-port-addresses.ts';
import { SET_ROLES, type SetRole } from '../state/set-roles.ts';
import type { NodeView, PlanConfig } from './plan-config.ts';
import { filterUnchanged } from './endpoint/filter-unchanged.ts';
import type { PlanDraft } from './plan-draft.ts';
import type { PlannedUdp, PlannedVirtualServer } from './service-plan.ts';
import { schedulerOf, type VirtualServerSettings, virtualServerSettings } from './virtual-server-settings.ts';
import {
  type Destinations,
  type NodeLocation,
  chooseDestinations,
  realServers as realServersOf,
} from './endpoint/traffic-policy.ts';

/** One port of a service, with its endpoints of one family. */
export interface PortView extends Pick<ServicePortModel, 'name' | 'protocol' | 'port'> {
  readonly nodePort: Port | undefined;
  /** Whether clients outside of the cluster can reach the port; external IPs count, whether or not they are served. */
  readonly accessible: boolean;
  readonly endpoints: readonly EndpointModel[];
  readonly destinations: Destinations;
  /** UDP only: serving endpoints on all nodes. The clean-up keeps flows to them, whichever node chose them. */
  readonly answering: PlannedUdp['answering'];
  /**
   * The same at external addresses. With policy Local and endpoints on this node, the others do not count: a client outside of
   * the cluster gets no answer from them, so a flow that began while this node had none must not outlast that.
   */
  readonly answeringOutside: PlannedUdp['answering'];
}

/** The parts of a service that belong to one IP family; the input of every planning rule. */
export interface FamilyView {
  readonly family: IpFamily;
  readonly service: ServiceModel;
  readonly node: NodeView;
  readonly clusterIp: IpAddress;
  /** Empty if external IPs are not served. */
  readonly externalIps: readonly IpAddress[];
  readonly loadBalancerIps: readonly IpAddress[];
  /** The node addresses that serve node ports; empty if no port has a node port. */
  readonly nodeAddresses: readonly IpAddress[];
  /** Of both families. */
  readonly localNodePortAddresses: readonly IpAddress[];
  readonly ports: readonly PortView[];
  /** Service addresses in these networks are neither bound to kube-ipvs0 nor closed. */
  readonly unboundCidrs: readonly Cidr[];
  /** Service addresses in these networks are not bound, because a local route makes the whole network local. */
  readonly localRouteCidrs: readonly Cidr[];
  /** Whether service addresses must be bound to kube-ipvs0. */
  readonly bindAddresses: boolean;
  readonly settings: VirtualServerSettings;
  /** The sets that the mode has. */
  readonly roles: readonly SetRole[];
  readonly namesServicePorts: boolean;
  /** As in PlanConfig. */
  readonly joinsSourceRanges: boolean;
}

/** Returns undefined if the service has no cluster IP of this family, because the family is then not served at all. */
export function familyView(
  service: ServiceModel,
  family: IpFamily,
  node: NodeView,
  config: PlanConfig,
): FamilyView | undefined {
  const ofFamily = (address: IpAddress): boolean => familyOf(address) === family;
  const clusterIp = service.clusterIps.find(ofFamily);
  if (clusterIp === undefined) return undefined;
  const externalIps = filterUnchanged(service.externalIps, ofFamily);
  const loadBalancerIps = filterUnchanged(service.loadBalancerIps, ofFamily);
  const hasNodePort = service.ports.some(({ nodePort }) => nodePort !== undefined);
  const accessible = externalIps.length + loadBalancerIps.length > 0;
  const place = { nodeName: config.nodeName, zone: node.zone };
  return {
    family,
    service,
    node,
    clusterIp,
    externalIps: (config.servesExternalIps ?? true) ? externalIps : EMPTY,
    loadBalancerIps,
    nodeAddresses: hasNodePort ? nodePortAddresses(family, node, config) : EMPTY,
    localNodePortAddresses: config.localNodePortAddresses ?? EMPTY,
    ports: filterUnchanged(service.ports, ({ protocol }) => hasProtocol(config, protocol)).map((port) =>
      portView(service, port, family, accessible || port.nodePort !== undefined, place),
    ),
    unboundCidrs: config.unboundCidrs ?? EMPTY,
    localRouteCidrs: config.localRouteCidrs ?? EMPTY,
    bindAddresses: config.bindAddresses ?? true,
    roles: config.roles ?? SET_ROLES,
    namesServicePorts: config.namesServicePorts ?? false,
    joinsSourceRanges: config.joinsSourceRanges ?? false,
    settings: virtualServerSettings(service, family, schedulerOf(service, node, config)),
  };
}

export function hasProtocol({ protocols }: Pick<PlanConfig, 'protocols'>, protocol: Protocol): boolean {
  return protocols?.includes(protocol) !== false;
}

function portView(
  service: ServiceModel,
  { name, protocol, port, nodePort, endpoints: both }: ServicePortModel,
  family: IpFamily,
  accessible: boolean,
  place: NodeLocation,
): PortView {
  const endpoints = filterUnchanged(both, ({ address }) => familyOf(address) === family);
  const serving = protocol === 'UDP' ? filterUnchanged(endpoints, isServing) : EMPTY;
  const destinations = chooseDestinations(service, endpoints, accessible, place);
  const answering = realServersOf(serving);
  return {
    name,
    protocol,
    port,
    nodePort,
    accessible,
    endpoints,
    destinations,
    answering,
    answeringOutside: destinations.isExternalHere
      ? realServersOf(serving.filter(({ traits }) => traits.local))
      : answering,
  };
}

function isServing({ traits }: EndpointModel): boolean {
  return traits.serving;
}

const NO_REQUESTS: ServiceRequests = {};

/** Adds the virtual server of one port at one address. */
export function planVirtualServer(
  draft: PlanDraft,
  view: FamilyView,
  { name: portName, protocol, endpoints, answering, answeringOutside }: PortView,
  at: { readonly address: IpAddress; readonly port: Port; readonly traits: AddressTraits },
  realServers: readonly RealServer[],
): void {
  const { address, port, traits } = at;
  const { scheduler, flags: common, timeout, prefix } = view.settings;
  const { onePacket, drainTimeout } = view.service.requests ?? NO_REQUESTS;
  const flags = onePacket === true && protocol === 'UDP' ? common | VS_ONE_PACKET : common;
  const hasTraits = !view.roles.includes('CLUSTER-IP');
  // In the modes that translate addresses, connections are rejected: nothing has the affinity.
  const isRejected = hasTraits && realServers.every(({ weight }) => weight === 0);
  const virtualServer = {
    address,
    port,
    protocol,
    scheduler,
    flags: isRejected ? flags & ~VS_PERSISTENT : flags,
    timeout: isRejected ? 0 : timeout,
    prefix,
    ...(view.namesServicePorts ? { servicePort: servicePortName(view.service.name, portName) } : {}),
    ...(hasTraits ? { traits } : {}),
    ...(hasTraits && drainTimeout !== undefined ? { drainTimeout } : {}),
  };
  const planned = { virtualServer, realServers, traits, portName };
  const translated = realServers.every((server) => forwardingOf(server) === FORWARDING.nat);
  draft.addVirtualServer(
    {
      ...planned,
      ...(drainTimeout === undefined ? {} : { drainTimeout }),
      ...(translated ? {} : directPods(view, endpoints)),
    },
    translated ? (traits.kind === 'cluster' ? answering : answeringOutside) : undefined,
  );
}

/** All Pods on this node count, not only those that this node chooses: another node may choose differently. */
function directPods(
  { service }: FamilyView,
  endpoints: readonly EndpointModel[],
): Pick<PlannedVirtualServer, 'direct'> {
  const { forwarding: method, encapsulation } = service.requests ?? NO_REQUESTS;
  const pods = endpoints.filter(({ traits }) => traits.localPod === true).map(({ address }) => address);
  if (method === undefined || pods.length === 0) return {};
  return { direct: { method, ...(encapsulation === undefined ? {} : { encapsulation }), pods } };
}
