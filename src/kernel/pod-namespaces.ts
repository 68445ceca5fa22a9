import type { IpAddress } from '../base/ip.ts';
import type { GuePort, PodDevice, PodOp } from '../state/pod-network.ts';

/** The network namespace of a Pod on this node. Methods reject with a KernelError. */
export interface PodNamespace {
  /** The path of its file. */
  readonly path: string;
  /** The node's interfaces to it: the other ends of its veth pairs, and the bridges that they belong to. */
  readonly interfaces: readonly string[];
  getDevices(): Promise<readonly PodDevice[]>;
  /** Returns none if the kernel has no FOU. */
  getGuePorts(): Promise<readonly GuePort[]>;
  /** Returns the local addresses of open TCP connections. */
  getConnectedAddresses(): Promise<ReadonlySet<IpAddress>>;
  /** Applies the operations in order. Returns a sentence for each that failed. */
  apply(ops: readonly PodOp[]): Promise<readonly string[]>;
}

export interface PodNamespaces {
  /**
   * Calls `visit` for each namespace in the folder, except this process's own, one at a time.
   *
   * @param only the paths of those to visit; all by default
   */
  each(visit: (namespace: PodNamespace) => Promise<void>, only?: ReadonlySet<string>): Promise<void>;
}
