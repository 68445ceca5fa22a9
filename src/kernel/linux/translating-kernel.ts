import { IP_FAMILIES, type IpFamily } from '../../base/ip.ts';
import type { Endpoint, ObservedRealServer } from '../../state/real-server.ts';
import {
  VS_PERSISTENT,
  type VirtualServer,
  type VirtualServerId,
  type VirtualServerKey,
} from '../../state/virtual-server.ts';
import { KernelError } from '../kernel-error.ts';
import type { IpSet } from '../../state/ip-set.ts';
import type { Kernel, ObservedIpSet } from '../kernel.ts';
import type { NodeKernel } from './node-kernel.ts';
import { RANDOM } from '../service-ops.ts';

/**
 * The common part of the modes that translate addresses by rules. Endpoints are chosen at random, and there are neither
 * kube-ipvs0 nor counters of virtual servers. Routes, node addresses, flows and sysctls are those of NodeKernel.
 */
export abstract class TranslatingKernel {
  abstract readonly mode: Kernel['mode'];
  abstract getSets(names: readonly string[]): Promise<ObservedIpSet[]>;
  protected readonly node: NodeKernel;
  #hasIpv6 = false;

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

  readonly getBoundAddresses: Kernel['getBoundAddresses'] = () => Promise.resolve([]);
  readonly getLocalRoutes: Kernel['getLocalRoutes'] = () => Promise.resolve([]);
  readonly getVirtualServerStats: Kernel['getVirtualServerStats'] = () =>
    Promise.resolve(new Map<VirtualServerKey, never>());
  readonly getRealServerStats: Kernel['getRealServerStats'] = () => Promise.resolve(new Map<VirtualServerKey, never>());
  readonly getTrafficTotals: Kernel['getTrafficTotals'] = () => Promise.resolve(undefined);
  readonly getIpvsTimeouts: Kernel['getIpvsTimeouts'] = () => Promise.resolve({ tcp: 0, tcpFin: 0, udp: 0 });
  readonly setIpvsTimeouts: Kernel['setIpvsTimeouts'] = () => Promise.resolve();

  /** The rules are removed with the tables, or as leftovers of the mode. */
  readonly removeRules: Kernel['removeRules'] = () => Promise.resolve();

  async findSets(names: readonly string[]): Promise<Map<string, IpSet>> {
    return new Map((await this.getSets(names)).map((set) => [set.name, set]));
  }

  /** A mode that keeps what it has read without a generation must override it. */
  forgetReadings(_before: number): Promise<void> {
    return Promise.resolve();
  }

  probeScheduler(scheduler: string): Promise<void> {
    if (scheduler === RANDOM) return Promise.resolve();
    const message = `${this.mode} mode chooses endpoints at random`;
    return Promise.reject(new KernelError('probeScheduler', 'EOPNOTSUPP', message));
  }

  close(): Promise<void> {
    this.node.close();
    return Promise.resolve();
  }

  /** The families that this kernel has. */
  protected async families(): Promise<readonly IpFamily[]> {
    this.#hasIpv6 ||= (await this.node.getSysctl('net/ipv6/conf/all/forwarding')) !== undefined;
    return this.#hasIpv6 ? IP_FAMILIES : [4];
  }
}

/** Affinity is in seconds; 0: none. */
export function virtualServerOf({ address, port, protocol }: VirtualServerId, affinity: number): VirtualServer {
  return {
    address,
    port,
    protocol,
    scheduler: RANDOM,
    flags: affinity > 0 ? VS_PERSISTENT : 0,
    timeout: affinity,
    prefix: typeof address === 'number' ? 32 : 128,
  };
}

/** Connections are those of connection tracking, which are not counted: an unwanted endpoint is removed at once. */
export function realServerOf({ address, port }: Endpoint): ObservedRealServer {
  return { address, port, weight: 1, forwarding: 0, ...NO_CONNECTIONS };
}

const NO_CONNECTIONS = { activeConnections: 0, inactiveConnections: 0, persistentConnections: 0 };
