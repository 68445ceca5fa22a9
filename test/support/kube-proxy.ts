import { access, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { cacheOf } from '../cluster/folders.ts';
import { parseSettings } from '../cluster/settings.ts';

export type KubeProxyMode = 'ipvs' | 'nftables' | 'iptables';

/** The version that the test cluster has by default. */
const { kubernetes: VERSION } = parseSettings([]);

export function kubeProxyName(mode: KubeProxyMode): string {
  return `kube-proxy ${VERSION} in ${mode} mode`;
}

/** The program, if `make cluster PROXY=kube-proxy` or `make smoke-build` has built it here. */
export async function builtKubeProxy(): Promise<string | undefined> {
  const program = path.join(cacheOf(VERSION).bin, 'kube-proxy');
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
