import { type IpAddress, IP_FAMILIES, type IpFamily, formatHostPort } from '../../../src/base/ip.ts';
import type { Protocol } from '../../../src/base/protocol.ts';
import { type Case, type ServiceObject, objectsAt, servicesOf } from '../case/case.ts';
import { type Frontend, frontendsAt } from '../case/served.ts';
import { addressOf } from '../../../test/trace/address-text.ts';

/** An address and port, with the Services that want it. */
export interface Target {
  readonly address: IpAddress;
  readonly protocol: Protocol;
  readonly port: number;
  readonly claims: readonly Frontend[];
}

/** The addresses of all interfaces of the node. */
export function nodeAddresses({ interfaces }: Case): ReadonlySet<IpAddress> {
  const texts = Object.values(interfaces).flat();
  return new Set(texts.map((text) => addressOf(text.split('/')[0] ?? '')));
}

/** Not the port of any Service. */
const UNUSED_PORT = 9;
const UNUSED_NODE_PORT = 32_767;
/** An address that is neither of the node nor of a Service. */
const STRANGERS: Readonly<Record<IpFamily, string>> = { 4: '192.0.2.77', 6: '2001:db8:9::77' };

/** Every port of every Service at each of its addresses, also those that nobody serves, and ports without a Service. */
export function targetsAt(given: Case, step: number): readonly Target[] {
  const targets = new Map<string, Target>();
  const add = (address: IpAddress, protocol: Protocol, port: number, ...claims: readonly Frontend[]): void => {
    const key = `${protocol} ${formatHostPort(address, port)}`;
    const known = targets.get(key)?.claims ?? [];
    targets.set(key, { address, protocol, port, claims: [...known, ...claims] });
  };
  for (const frontend of frontendsAt(given, step)) {
    add(addressOf(frontend.address), frontend.port.protocol, frontend.number, frontend);
  }
  for (const service of servicesOf(objectsAt(given, step))) {
    for (const { protocol, port, nodePort = 0 } of service.spec.ports) {
      for (const address of addressesOf(service)) {
        add(address, protocol, port);
        add(address, 'TCP', UNUSED_PORT);
      }
      for (const family of nodePort === 0 ? [] : IP_FAMILIES) add(addressOf(STRANGERS[family]), protocol, nodePort);
    }
  }
  for (const address of nodeAddresses(given)) add(address, 'TCP', UNUSED_NODE_PORT);
  return [...targets.values()];
}

function addressesOf({ spec, status }: ServiceObject): readonly IpAddress[] {
  const ingress = (status?.loadBalancer.ingress ?? []).flatMap(({ ip }) => ip ?? []);
  const texts = [...(spec.clusterIPs ?? []), ...(spec.externalIPs ?? []), ...ingress];
  return texts.filter((text) => text !== 'None').map(addressOf);
}
