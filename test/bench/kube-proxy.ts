import { access, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import type { Kernel } from '../../src/kernel/kernel.ts';
import { cacheOf } from '../cluster/folders.ts';
import { parseSettings } from '../cluster/settings.ts';
import { now } from './api-process.ts';
import { type DaemonNode, Started } from './daemon-process.ts';
import { NODE_NAME } from './large-cluster.ts';

/** The version that the test cluster has by default. */
const { kubernetes: VERSION } = parseSettings([]);

export function kubeProxyName(mode: Kernel['mode']): string {
  return `kube-proxy ${VERSION} in ${mode} mode`;
}

/** The program, if `make cluster PROXY=kube-proxy` has built it here. */
export async function builtKubeProxy(): Promise<string | undefined> {
  const program = path.join(cacheOf(VERSION).bin, 'kube-proxy');
  try {
    await access(program);
    return program;
  } catch {
    return undefined;
  }
}

/** kube-proxy on a node, in the mode for which the node was made, with its defaults where the test bed permits. */
export class KubeProxy implements AsyncDisposable {
  readonly started: Started;
  readonly #folder: string;

  private constructor(started: Started, folder: string) {
    this.started = started;
    this.#folder = folder;
  }

  static async start(program: string, node: DaemonNode): Promise<KubeProxy> {
    const folder = await mkdtemp(path.join(tmpdir(), 'bench-kube-proxy-'));
    const file = path.join(folder, 'config.json');
    const config = {
      apiVersion: 'kubeproxy.config.k8s.io/v1alpha1',
      kind: 'KubeProxyConfiguration',
      mode: node.bench.kernel.mode,
      hostnameOverride: NODE_NAME,
      clusterCIDR: '10.64.0.0/10',
      // The API server for tests has JSON only.
      clientConnection: {
        kubeconfig: node.api.kubeconfig,
        contentType: 'application/json',
        acceptContentTypes: 'application/json',
      },
      conntrack: { maxPerCore: 0 },
    };
    await writeFile(file, JSON.stringify(config));
    const at = now();
    return new KubeProxy(new Started(await node.namespace.spawn([program, `--config=${file}`]), at), folder);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.started.process[Symbol.asyncDispose]();
    await rm(this.#folder, { recursive: true });
  }
}
