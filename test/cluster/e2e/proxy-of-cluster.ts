import type { E2eProxy } from './results.ts';

/** The fields that are read from a list of DaemonSets and ConfigMaps. */
interface Item {
  readonly kind: string;
  readonly metadata: { readonly name: string };
  readonly data?: Readonly<Record<string, string>>;
}

/** kube-proxy's default is iptables. */
const PROXY_OF_MODE: Readonly<Record<string, E2eProxy>> = {
  ipvs: 'kube-proxy-ipvs',
  iptables: 'kube-proxy-iptables',
  nftables: 'kube-proxy-nftables',
  '': 'kube-proxy-iptables',
};

/**
 * Which service proxy a cluster runs.
 *
 * @param list output of `kubectl -n kube-system get daemonsets,configmaps -o json`
 * @returns undefined if it runs none that e2e compares
 */
export function proxyOfCluster(list: string): E2eProxy | undefined {
  const { items } = JSON.parse(list) as { items: readonly Item[] };
  const runs = (name: string): boolean =>
    items.some(({ kind, metadata }) => kind === 'DaemonSet' && metadata.name === name);
  if (runs('kube-ipvs-proxy')) return 'ours';
  if (!runs('kube-proxy')) return undefined;
  const config = items.find(({ kind, metadata }) => kind === 'ConfigMap' && metadata.name === 'kube-proxy');
  const [, mode] = /^\s*mode:\s*"?(\w*)"?\s*$/m.exec(config?.data?.['config.conf'] ?? '') ?? [];
  return mode === undefined ? undefined : PROXY_OF_MODE[mode];
}
