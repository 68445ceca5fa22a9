import { PLANS } from '../addresses.ts';
import type { Family } from '../settings.ts';
import { type Service, addressesOf, wantsAddresses } from './service.ts';

/** A node that load balancers send to. */
export interface Target {
  /** One of each family. */
  readonly addresses: readonly string[];
  /** Whether the node answers 200 at a health check node port. */
  healthy(port: number): boolean;
}

/**
 * The nodes that each address is routed to: all of them, or with externalTrafficPolicy Local those that say that they
 * have endpoints; with session affinity, the first of these, because a client must not change its node. Addresses without a
 * node are left out.
 */
export function routesOf(
  services: readonly Service[],
  range: (address: string) => boolean,
  targets: readonly Target[],
): ReadonlyMap<string, readonly string[]> {
  const routes = new Map<string, readonly string[]>();
  for (const service of services) {
    if (!wantsAddresses(service)) continue;
    const { externalTrafficPolicy, healthCheckNodePort, sessionAffinity } = service.spec;
    const healthy = targets.filter(
      (target) =>
        externalTrafficPolicy !== 'Local' || (healthCheckNodePort !== undefined && target.healthy(healthCheckNodePort)),
    );
    const serving = sessionAffinity === 'ClientIP' ? healthy.slice(0, 1) : healthy;
    for (const address of addressesOf(service)) {
      const family = address.includes(':');
      const nodes = serving.flatMap((target) => target.addresses.filter((node) => node.includes(':') === family));
      if (range(address) && nodes.length > 0) routes.set(address, nodes);
    }
  }
  return routes;
}

const DEVICE = 'lb0';

/**
 * The commands for `ip -batch` that make the place of the load balancers: a device with the address of the client, which loses
 * what no node is there for without a word, as a load balancer without a healthy node does.
 */
export function deviceCommands(families: readonly Family[]): readonly string[] {
  const plans = families.map((family) => PLANS[family]);
  return [
    `link add ${DEVICE} type bridge`,
    `link set ${DEVICE} arp off up`,
    ...plans.map(({ outside }) => `addr add ${outside} dev ${DEVICE}`),
    ...plans.map(({ loadBalancers }) => `route replace ${loadBalancers} dev ${DEVICE}`),
  ];
}

/** The commands for `ip -batch` that turn the routes `before` into the routes `after`. */
export function routeCommands(
  before: ReadonlyMap<string, readonly string[]>,
  after: ReadonlyMap<string, readonly string[]>,
): readonly string[] {
  const gone = [...before.keys()].filter((address) => !after.has(address));
  const changed = [...after].filter(([address, nodes]) => before.get(address)?.join() !== nodes.join());
  return [
    ...gone.map((address) => `route del ${address}`),
    ...changed.map(
      ([address, nodes]) =>
        `route replace ${address} src ${PLANS[address.includes(':') ? 'ipv6' : 'ipv4'].outside} ${nodes.map((node) => `nexthop via ${node}`).join(' ')}`,
    ),
  ];
}

/** The health check node ports that must be asked. */
export function healthCheckPorts(services: readonly Service[]): readonly number[] {
  const local = services.filter((service) => wantsAddresses(service) && service.spec.externalTrafficPolicy === 'Local');
  return local.flatMap(({ spec }) => spec.healthCheckNodePort ?? []);
}
