import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { writeKubeProxyConfig } from '../../test/support/kube-proxy.ts';
import { now } from './api-process.ts';
import { type DaemonNode, Started } from './daemon-process.ts';
import { NODE_NAME } from './large-cluster.ts';

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
    await writeKubeProxyConfig(file, {
      mode: node.bench.mode,
      kubeconfig: node.api.kubeconfig,
      nodeName: NODE_NAME,
      clusterCidr: '10.64.0.0/10',
    });
    const at = now();
    return new KubeProxy(new Started(await node.namespace.spawn([program, `--config=${file}`]), at), folder);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.started.process[Symbol.asyncDispose]();
    await rm(this.#folder, { recursive: true });
  }
}
