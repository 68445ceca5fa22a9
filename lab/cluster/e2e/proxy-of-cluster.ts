import { OUR_MODES } from '../settings.ts';
import { E2E_PROXIES, type E2eProxy } from './results.ts';

/** The fields that are read from a list of DaemonSets and ConfigMaps. */
interface Item {
  readonly kind: string;
  readonly metadata: { readonly name: string };
  readonly data?: Readonly<Record<string, string>>;
  readonly spec?: { readonly template?: { readonly spec?: { readonly volumes?: readonly Volume[] } } };
}

interface Volume {
  readonly configMap?: { readonly name: string };
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
  const find = (wanted: string, name: string): Item | undefined =>
    items.find(({ kind, metadata }) => kind === wanted && metadata.name === name);
  const modeIn = (configMap: string): string | undefined => {
    const text = find('ConfigMap', configMap)?.data?.['config.conf'] ?? '';
    return /^\s*mode:\s*"?(\w*)"?\s*$/m.exec(text)?.[1];
  };
  const ours = find('DaemonSet', 'kube-ipvs-proxy');
  if (ours !== undefined) {
    // The name of its ConfigMap ends with a hash of what it contains.
    const names = ours.spec?.template?.spec?.volumes?.flatMap(({ configMap }) => configMap?.name ?? []) ?? [];
    const modes = names.map(modeIn);
    return E2E_PROXIES.find((proxy) => proxy !== 'ours' && modes.includes(OUR_MODES[proxy])) ?? 'ours';
  }
  if (find('DaemonSet', 'kube-proxy') === undefined) return undefined;
  const mode = modeIn('kube-proxy');
  return mode === undefined ? undefined : PROXY_OF_MODE[mode];
}
