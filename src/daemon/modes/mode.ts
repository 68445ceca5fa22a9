import type { ProxyConfig } from '../../config/proxy-config.ts';
import type { Kernel, KernelReader } from '../../kernel/kernel.ts';
import type { NodeKernelOptions } from '../../kernel/linux/node-kernel.ts';
import type { Log } from '../../observe/log/log.ts';
import type { KnownLeftovers } from './known-leftovers.ts';

export interface ModeParts {
  readonly config: ProxyConfig;
  readonly log: Log;
  /** Called when a program is started. */
  readonly onProgram: (program: string) => void;
  /** The variant of iptables that this program uses ("nft", "legacy", "system"); undefined if it is not known. */
  readonly iptables?: string | undefined;
  readonly knownLeftovers: KnownLeftovers;
}

/** A way to program Services. A mode loads nothing that only another mode needs. */
export interface Mode {
  createKernel(options: NodeKernelOptions): Kernel;
  /** Returns a kernel that only reads. */
  createReader(options: NodeKernelOptions): KernelReader;
  /** As KernelReader.preview on a node that has nothing yet; needs no kernel. */
  readonly previewOfNothing: KernelReader['preview'];
  /**
   * Removes what other modes left on this node. Called when the first sync has succeeded, so that a change of mode does
   * not interrupt traffic. Returns a function that ends it.
   */
  removeOthers(parts: ModeParts): () => void;
  /** Logs which program may have deleted kube-ipvs0 or a table. Called when it has been recreated. */
  logDeleter(parts: ModeParts): void;
}
