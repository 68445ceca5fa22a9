import type { ProxyMode } from '../../src/base/proxy-mode.ts';

/** What runs the Services of the cluster. */
export const PROXIES = [
  'ours',
  'ours-nftables',
  'ours-iptables',
  'kube-proxy-ipvs',
  'kube-proxy-iptables',
  'kube-proxy-nftables',
  'none',
] as const;
export type Proxy = (typeof PROXIES)[number];

/** The mode in which kube-ipvs-proxy runs; other proxies are absent. */
export const OUR_MODES: Readonly<Partial<Record<Proxy, ProxyMode>>> = {
  ours: 'ipvs',
  'ours-nftables': 'nftables',
  'ours-iptables': 'iptables',
};

const OVERLAYS = ['privileged', 'restricted'] as const;
type Overlay = (typeof OVERLAYS)[number];

export type Family = 'ipv4' | 'ipv6';

/** What the user may choose. */
export interface Settings {
  readonly cluster: string;
  readonly nodes: number;
  /** A version of Kubernetes without the `v`: "1.35.4". */
  readonly kubernetes: string;
  /** One or two families; the first is that of the API server and of Services that name none. */
  readonly families: readonly Family[];
  readonly proxy: Proxy;
  /** Which of manifests/overlays/ is applied. */
  readonly overlay: Overlay;
  /** Whether Services of type LoadBalancer get addresses, which lead to the nodes. */
  readonly loadBalancer: boolean;
  /** Memory of a node, as User-Mode Linux wants it: "4G". */
  readonly memory: string;
}

export class SettingsError extends Error {
  override readonly name = 'SettingsError';
}

const DEFAULTS = {
  CLUSTER: 'test',
  NODES: '2',
  KUBERNETES: '1.35.4',
  FAMILY: 'ipv4',
  PROXY: 'ours',
  OVERLAY: 'privileged',
  LOAD_BALANCER: 'no',
  MEMORY: '4G',
};
type Name = keyof typeof DEFAULTS;

const FAMILIES: ReadonlyMap<string, readonly Family[]> = new Map([
  ['ipv4', ['ipv4']],
  ['ipv6', ['ipv6']],
  ['dual', ['ipv4', 'ipv6']],
  ['ipv4,ipv6', ['ipv4', 'ipv6']],
  ['ipv6,ipv4', ['ipv6', 'ipv4']],
]);

/**
 * Reads arguments like `NODES=3`. An empty value is the default, so that make can pass all of them. Throws a
 * SettingsError that names the first wrong argument and what it may be.
 */
export function parseSettings(argv: readonly string[]): Settings {
  const given = { ...DEFAULTS };
  for (const argument of argv) {
    const at = argument.indexOf('=');
    const name = argument.slice(0, Math.max(at, 0));
    if (!isName(name)) {
      throw new SettingsError(`${argument}: the settings are ${Object.keys(DEFAULTS).join(', ')}, written NAME=value`);
    }
    const value = argument.slice(at + 1).trim();
    if (value !== '') given[name] = value;
  }
  return {
    cluster: matching('CLUSTER', given.CLUSTER, /^[a-z0-9][a-z0-9-]{0,19}$/, 'up to 20 of a-z, 0-9 and -'),
    nodes: Number(matching('NODES', given.NODES, /^[1-9]$/, 'a number from 1 to 9')),
    kubernetes: matching('KUBERNETES', given.KUBERNETES, /^1\.\d+\.\d+$/, 'a version like 1.35.4'),
    families: FAMILIES.get(given.FAMILY) ?? refuse('FAMILY', given.FAMILY, [...FAMILIES.keys()].join(' or ')),
    proxy: oneOf('PROXY', given.PROXY === 'kube-proxy' ? 'kube-proxy-ipvs' : given.PROXY, PROXIES),
    overlay: oneOf('OVERLAY', given.OVERLAY, OVERLAYS),
    loadBalancer: oneOf('LOAD_BALANCER', given.LOAD_BALANCER, ['no', 'yes']) === 'yes',
    memory: matching('MEMORY', given.MEMORY, /^[1-9]\d*[MG]$/, 'a size like 4G or 3500M'),
  };
}

function isName(name: string): name is Name {
  return Object.hasOwn(DEFAULTS, name);
}

function refuse(name: Name, value: string, wanted: string): never {
  throw new SettingsError(`${name}=${value} is not ${wanted}`);
}

function matching(name: Name, value: string, pattern: RegExp, wanted: string): string {
  return pattern.test(value) ? value : refuse(name, value, wanted);
}

function oneOf<T extends string>(name: Name, value: string, values: readonly T[]): T {
  return values.find((one) => one === value) ?? refuse(name, value, values.join(' or '));
}
