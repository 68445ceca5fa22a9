import { type IpAddress, type IpFamily, familyOf, formatHostPort, formatIp, isLoopback } from '../../../src/base/ip.ts';
import { type Case, type EndpointObject, type Objects, type ServiceObject, objectsAt, slicesOf } from '../case/case.ts';
import { NODE_IPS } from '../case/make-node.ts';
import { addressOf } from '../../../test/trace/address-text.ts';
import type { Packet, TracedNode } from '../../../test/trace/ruleset.ts';
import { type Target, nodeAddresses, targetsAt } from './targets.ts';

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
  /** Names it in reports: "packet from a Pod here (10.244.0.99) to TCP 10.96.0.10:80". */
  readonly fact: string;
  readonly target: Target;
  readonly sender: Sender;
  readonly packet: Packet;
  readonly node: TracedNode;
}

const made = new WeakMap<Case, readonly (readonly Probe[])[]>();

/** Returns the packets to try after a step of a case. */
export function probesAt(given: Case, step: number): readonly Probe[] {
  const known = made.get(given) ?? given.steps.map((_, index) => probesOf(given, index));
  made.set(given, known);
  return known[step] ?? [];
}

function probesOf(given: Case, step: number): readonly Probe[] {
  const objects = objectsAt(given, step);
  const own = nodeAddresses(given);
  return targetsAt(given, step).flatMap((target) =>
    sendersOf(target, objects, own).map((each) => probe(target, each, own)),
  );
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
    fact: `packet from ${sender} (${formatIp(source)}) to ${protocol} ${formatHostPort(address, port)}`,
    target,
    sender,
    packet: { source, destination: address, protocol, port, through },
    node: { isLocal: (each) => own.has(each) || isLoopback(each) || (isBound && each === address) },
  };
}
