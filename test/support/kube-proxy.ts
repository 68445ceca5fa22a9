import { access, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import type { LongProcess } from '../bed/long-process.ts';
import type { Namespace } from '../bed/namespace.ts';
import { patient } from '../bed/patience.ts';
import { cacheOf } from '../../lab/cluster/folders.ts';
import { parseSettings } from '../../lab/cluster/settings.ts';

export type KubeProxyMode = 'ipvs' | 'nftables' | 'iptables';

/** The version that the test cluster has by default. */
const { kubernetes: VERSION } = parseSettings([]);

/** The release whose kube-proxy the traffic matrix and the bench compare ours with. */
export const COMPARED_VERSION = '1.37.2';

export function kubeProxyName(mode: KubeProxyMode): string {
  return `kube-proxy ${COMPARED_VERSION} in ${mode} mode`;
}

/** The program, if `make cluster PROXY=kube-proxy`, `make smoke-build` or `make matrix PROXY=kube-proxy` has built it here. */
export async function builtKubeProxy(version = VERSION): Promise<string | undefined> {
  const program = path.join(cacheOf(version).bin, 'kube-proxy');
  try {
    await access(program);
    return program;
  } catch {
    return undefined;
  }
}

export interface KubeProxySettings {
  readonly mode: KubeProxyMode;
  readonly kubeconfig: string;
  readonly nodeName: string;
  readonly clusterCidr: string;
  /** Default: kube-proxy's own. */
  readonly nodePortAddresses?: readonly string[];
}

/** Writes a configuration file with kube-proxy's defaults where the test bed permits. */
export async function writeKubeProxyConfig(file: string, settings: KubeProxySettings): Promise<void> {
  const { mode, kubeconfig, nodeName, clusterCidr, nodePortAddresses } = settings;
  const config = {
    apiVersion: 'kubeproxy.config.k8s.io/v1alpha1',
    kind: 'KubeProxyConfiguration',
    mode,
    hostnameOverride: nodeName,
    clusterCIDR: clusterCidr,
    ...(nodePortAddresses && { nodePortAddresses }),
    // The API server for tests has JSON only.
    clientConnection: { kubeconfig, contentType: 'application/json', acceptContentTypes: 'application/json' },
    conntrack: { maxPerCore: 0 },
  };
  await writeFile(file, JSON.stringify(config));
}

/** Starts the API server for tests on a node, with the objects of a folder, and returns its URL. */
export async function startApiServer(node: Namespace, objects: string, kubeconfig: string): Promise<string> {
  const server = ['test/apiserver/main.ts', `--objects=${objects}`, `--kubeconfig=${kubeconfig}`];
  const [url] = await (await node.spawn([process.execPath, ...server])).waitForOutput(/^http\S+/m, 60_000);
  return url;
}

/** Starts kube-proxy on a node, with a configuration file beside the kubeconfig. Resolves when its first sync succeeded. */
export async function startKubeProxy(
  node: Namespace,
  program: string,
  settings: Omit<KubeProxySettings, 'nodeName'>,
): Promise<LongProcess> {
  const file = `${settings.kubeconfig}.kube-proxy`;
  await writeKubeProxyConfig(file, { ...settings, nodeName: node.name });
  const proxy = await node.spawn([program, `--config=${file}`, '-v=2']);
  for (let waited = 0; !(await hasSynced(node)); waited += 500) {
    if (proxy.exit !== undefined || waited > patient(90_000)) {
      throw new Error(`kube-proxy in ${settings.mode} mode has not programmed the node:\n${proxy.output}`);
    }
    await sleep(500);
  }
  return proxy;
}

/** By the metrics of kube-proxy: whether its last sync of each family succeeded. */
async function hasSynced(node: Namespace): Promise<boolean> {
  const scrape = ['curl', '--silent', 'http://127.0.0.1:10249/metrics'];
  const { stdout: metrics } = await node.exec(scrape, { allowFailure: true });
  return ['IPv4', 'IPv6'].every((family) => {
    const pattern = `^kubeproxy_sync_proxy_rules_last_timestamp_seconds{ip_family="${family}"} (.*)$`;
    return Number(new RegExp(pattern, 'm').exec(metrics)?.[1] ?? 0) > 0;
  });
}
