import type { Family } from './settings.ts';

/** The addresses of one family. They are visible in the cluster's own network namespace only, so all clusters use the same. */
interface Plan {
  /** The bridge that the control plane listens on and the nodes are connected to. */
  readonly bridge: string;
  /** Prefix length of the network of the bridge and the nodes. */
  readonly prefix: number;
  readonly anywhere: string;
  readonly pods: string;
  readonly services: string;
  /** The first address of the Services: that of default/kubernetes. */
  readonly apiService: string;
  readonly dns: string;
  node(index: number): string;
  podsOf(index: number): string;
  /** The network of the addresses for Services of type LoadBalancer. */
  readonly loadBalancers: string;
  /** An address for a Service of type LoadBalancer; `index` counts from 1. */
  loadBalancer(index: number): string;
  /** The source of connections to these addresses: a client that is in none of the networks above. */
  readonly outside: string;
}

export const PLANS: Readonly<Record<Family, Plan>> = {
  ipv4: {
    bridge: '172.30.0.1',
    prefix: 24,
    anywhere: '0.0.0.0/0',
    pods: '10.244.0.0/16',
    services: '10.96.0.0/16',
    apiService: '10.96.0.1',
    dns: '10.96.0.10',
    node: (index) => `172.30.0.1${index}`,
    podsOf: (index) => `10.244.${index}.0/24`,
    loadBalancers: '172.30.1.0/24',
    loadBalancer: (index) => `172.30.1.${index}`,
    outside: '198.51.100.1',
  },
  ipv6: {
    bridge: 'fd00:30::1',
    prefix: 64,
    anywhere: '::/0',
    pods: 'fd00:244::/48',
    services: 'fd00:96::/112',
    apiService: 'fd00:96::1',
    dns: 'fd00:96::a',
    node: (index) => `fd00:30::1${index}`,
    podsOf: (index) => `fd00:244:0:${index}::/64`,
    loadBalancers: 'fd00:31::/64',
    loadBalancer: (index) => `fd00:31::${index.toString(16)}`,
    outside: 'fd00:51::1',
  },
};

const API_PORT = 6443;

/** What of each family, in the order of the families, as command lines want it: "a,b". */
export function each(families: readonly Family[], what: (plan: Plan) => string): string {
  return families.map((family) => what(PLANS[family])).join();
}

/** Where the control plane listens, in the first family. */
export function primary(families: readonly Family[]): Plan {
  return PLANS[families[0] ?? 'ipv4'];
}

export function apiServer(families: readonly Family[]): string {
  const { bridge } = primary(families);
  return `https://${bridge.includes(':') ? `[${bridge}]` : bridge}:${API_PORT}`;
}

export function nodeName(index: number): string {
  return `node-${index}`;
}

/** The numbers of the nodes: 1 to `nodes`. */
export function nodeIndexes(nodes: number): readonly number[] {
  return Array.from({ length: nodes }, (_, index) => index + 1);
}
