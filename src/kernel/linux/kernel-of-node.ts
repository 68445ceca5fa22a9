import type { Kernel } from '../kernel.ts';
import type { NodeKernel } from './node-kernel.ts';

/** What the kernel of every mode has of its node: routes, addresses, flows, sysctls and counters. */
export abstract class KernelOfNode {
  protected readonly node: NodeKernel;

  constructor(node: NodeKernel) {
    this.node = node;
  }

  get counters(): Kernel['counters'] {
    return this.node.counters;
  }

  readonly findRoutes: Kernel['findRoutes'] = (to) => this.node.findRoutes(to);
  readonly findUnforwarded: Kernel['findUnforwarded'] = () => this.node.findUnforwarded();
  readonly getNodeAddresses: Kernel['getNodeAddresses'] = () => this.node.getNodeAddresses();
  readonly getUdpFlows: Kernel['getUdpFlows'] = (family) => this.node.getUdpFlows(family);
  readonly getFlowSources: Kernel['getFlowSources'] = (family, among) => this.node.getFlowSources(family, among);
  readonly deleteFlows: Kernel['deleteFlows'] = (flows) => this.node.deleteFlows(flows);
  readonly getSysctl: Kernel['getSysctl'] = (key) => this.node.getSysctl(key);
  readonly setSysctl: Kernel['setSysctl'] = (key, value) => this.node.setSysctl(key, value);

  /** A mode that keeps what it has read without a generation must override it. */
  forgetReadings(_before: number): Promise<void> {
    return Promise.resolve();
  }

  /** A mode with tables of its own must override it. */
  readonly listTables: Kernel['listTables'] = () => Promise.resolve([]);

  close(): Promise<void> {
    this.node.close();
    return Promise.resolve();
  }
}
