import {
  type IpAddress,
  IP_FAMILIES,
  type IpFamily,
  familyOf,
  formatHostPort,
  formatIp,
  isLoopback,
  parseIp,
} from '../../../src/base/ip.ts';
import type { Protocol } from '../../../src/base/protocol.ts';
import {
  type Case,
  type EndpointObject,
  type Objects,
  type ServiceObject,
  keyOf,
  nameOf,
  servicesOf,
  slicesOf,
} from '../case/case.ts';
import { NODE_IPS } from '../case/make-node.ts';
import type { Packet, TracedNode } from '../trace/ruleset.ts';

/** What a service address is to a Service. */
export interface Claim {
  readonly service: ServiceObject;
  readonly kind: 'cluster IP' | 'external IP' | 'load balancer IP' | 'node port';
  readonly portName: string;
}

/** An address and port, with the Services that want it. */
export interface Target {
  readonly address: IpAddress;
  readonly protocol: Protocol;
  readonly port: number;
  readonly claims: readonly Claim[];
}

/** `the node, which has the address`: another program has bound the service address on the node. */
export type Sender =
  | 'a Pod here'
  | 'a Pod elsewhere'
  | 'a client outside'
  | 'the node'
  | 'the node, which has the address'
  | 'an endpoint';

/** A packet that both sides' rules are asked about. */
export interface Probe {
  /** Names it in reports: "TCP 10.96.0.10:80 from a Pod here 10.244.0.99". */
  readonly fact: string;
  readonly target: Target;
  readonly sender: Sender;
  readonly packet: Packet;
  readonly node: TracedNode;
}

const made = new WeakMap<Case, readonly (readonly Probe[])[]>();

/** Returns the packets to try after a step of a case. */
export function probesAt(given: Case, step: number): readonly Probe[] {
  const known = made.get(given) ?? objectsOf(given).map((objects) => probesOf(given, objects));
  made.set(given, known);
  return known[step] ?? [];
}

/** The objects that exist after each step. */
export function objectsOf({ steps }: Case): readonly Objects[] {
  let objects: Objects = new Map();
  return steps.map(({ apply, remove }) => {
    objects = new Map(objects);
    for (const object of apply) objects.set(keyOf(nameOf(object)), object);
    for (const name of remove) objects.delete(keyOf(name));
    return objects;
  });
}

function probesOf(given: Case, objects: Objects): readonly Probe[] {
  const own = interfaceAddresses(given);
  return targetsOf(objects, own).flatMap((target) =>
    sendersOf(target, objects, own).map((each) => probe(target, each, own)),
  );
}

function interfaceAddresses({ interfaces }: Case): ReadonlySet<IpAddress> {
  return new Set(
    Object.values(interfaces)
      .flat()
      .map((text) => addressOf(text.split('/')[0] ?? '')),
  );
}

function addressOf(text: string): IpAddress {
  const address = parseIp(text);
  if (address === undefined) throw new Error(`not an address: ${text}`);
  return address;
}

/** Not the port of any Service. */
const UNUSED_PORT = 9;
const UNUSED_NODE_PORT = 32_767;
/** An address that is neither of the node nor of a Service. */
const STRANGERS: Readonly<Record<IpFamily, string>> = { 4: '192.0.2.77', 6: '2001:db8:9::77' };

function targetsOf(objects: Objects, own: ReadonlySet<IpAddress>): readonly Target[] {
  const targets = new Map<string, Target>();
  const add = (address: IpAddress, protocol: Protocol, port: number, claim?: Claim): void => {
    const key = `${protocol} ${formatHostPort(address, port)}`;
    const { claims } = targets.get(key) ?? { claims: [] };
    targets.set(key, { address, protocol, port, claims: claim === undefined ? claims : [...claims, claim] });
  };
  for (const service of servicesOf(objects)) {
    for (const { name: portName, protocol, port, nodePort = 0 } of service.spec.ports) {
      for (const { kind, address } of addressesOf(service)) {
        add(address, protocol, port, claimOf(service, kind, portName, address));
        add(address, 'TCP', UNUSED_PORT);
      }
      if (nodePort === 0) continue;
      for (const address of own) add(address, protocol, nodePort, claimOf(service, 'node port', portName, address));
      for (const family of IP_FAMILIES) add(addressOf(STRANGERS[family]), protocol, nodePort);
    }
  }
  for (const address of own) add(address, 'TCP', UNUSED_NODE_PORT);
  return [...targets.values()];
}

/** Every service address in a Service; the kind is undefined if another program serves it. */
function addressesOf({ spec, status }: ServiceObject): readonly {
  readonly kind: Claim['kind'] | undefined;
  readonly address: IpAddress;
}[] {
  const all = (kind: Claim['kind'] | undefined, texts: readonly string[]) =>
    texts.map((text) => ({ kind, address: addressOf(text) }));
  const ingress = (status?.loadBalancer.ingress ?? []).filter(({ ip }) => ip !== undefined);
  const [behind, served] = [true, false].map((isProxy) =>
    ingress.filter(({ ipMode }) => (ipMode === 'Proxy') === isProxy).map(({ ip = '' }) => ip),
  );
  return [
    ...all(
      'cluster IP',
      (spec.clusterIPs ?? []).filter((ip) => ip !== 'None'),
    ),
    ...all('external IP', spec.externalIPs ?? []),
    ...all('load balancer IP', served ?? []),
    ...all(undefined, behind ?? []),
  ];
}

/** Undefined if the Service does not have the family of the address, or is not kube-proxy's. */
function claimOf(
  service: ServiceObject,
  kind: Claim['kind'] | undefined,
  portName: string,
  address: IpAddress,
): Claim | undefined {
  const family = familyOf(address) === 4 ? 'IPv4' : 'IPv6';
  const isOurs = service.metadata.labels?.['service.kubernetes.io/service-proxy-name'] === undefined;
  const hasFamily = service.spec.ipFamilies?.includes(family) === true;
  return kind === undefined || !isOurs || !hasFamily ? undefined : { service, kind, portName };
}

interface Sending {
  readonly sender: Sender;
  readonly source: IpAddress;
  readonly through?: string;
}

/** In and outside of the source ranges that cases have. */
const CLIENTS: Readonly<Record<IpFamily, readonly string[]>> = {
  4: ['203.0.113.200', '198.51.100.99', '10.1.2.99'],
  6: ['2001:db8:ffff::99', '2001:db8:1::99', '2001:db8:9::99'],
};
const POD_HERE: Readonly<Record<IpFamily, string>> = { 4: '10.244.0.99', 6: 'fd00:244::99' };
const POD_ELSEWHERE: Readonly<Record<IpFamily, string>> = { 4: '10.244.1.99', 6: 'fd00:244:0:1::99' };
const POD_INTERFACE = 'cni0';
const UPLINK = 'eth0';
/** So many endpoints connect to their own Service. */
const MOST_ENDPOINTS = 2;

function sendersOf({ address, claims }: Target, objects: Objects, own: ReadonlySet<IpAddress>): readonly Sending[] {
  const family = familyOf(address);
  const nodeIp = addressOf(NODE_IPS[family === 4 ? 0 : 1]);
  const fromNode: Sending = { sender: 'the node', source: own.has(address) ? address : nodeIp };
  if (isLoopback(address)) return [fromNode];
  const endpoints = claims.flatMap(({ service }) => endpointsHere(service, objects, family)).slice(0, MOST_ENDPOINTS);
  const isRestricted = claims.some(({ service }) => (service.spec.loadBalancerSourceRanges ?? []).length > 0);
  const clients = isRestricted ? CLIENTS[family] : CLIENTS[family].slice(0, 1);
  return [
    fromNode,
    ...(own.has(address) || claims.length === 0
      ? []
      : [{ sender: 'the node, which has the address' as const, source: address }]),
    { sender: 'a Pod here', source: addressOf(POD_HERE[family]), through: POD_INTERFACE },
    { sender: 'a Pod elsewhere', source: addressOf(POD_ELSEWHERE[family]), through: UPLINK },
    ...clients.map((text): Sending => ({
      sender: 'a client outside',
      source: addressOf(text),
      through: UPLINK,
    })),
    ...endpoints.map((source): Sending => ({ sender: 'an endpoint', source, through: POD_INTERFACE })),
  ];
}

/** The addresses of a Service's endpoints on this node. */
function endpointsHere({ metadata }: ServiceObject, objects: Objects, family: IpFamily): readonly IpAddress[] {
  const isHere = ({ addresses }: EndpointObject): boolean =>
    /^(10\.244\.0\.|fd00:244(:0:0)?::)/.test(addresses[0] ?? '');
  const here = slicesOf(objects, metadata).flatMap(({ endpoints }) => endpoints.filter(isHere));
  const found = here.flatMap(({ addresses }) => addresses.map(addressOf));
  return [...new Set(found)].filter((address) => familyOf(address) === family);
}

function probe(target: Target, { sender, source, through }: Sending, own: ReadonlySet<IpAddress>): Probe {
  const { address, protocol, port } = target;
  const isBound = sender === 'the node, which has the address';
  return {
    fact: `${protocol} ${formatHostPort(address, port)} from ${sender} ${formatIp(source)}`,
    target,
    sender,
    packet: { source, destination: address, protocol, port, through },
    node: { isLocal: (each) => own.has(each) || isLoopback(each) || (isBound && each === address) },
  };
}
