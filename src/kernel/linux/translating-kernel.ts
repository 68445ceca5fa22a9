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
import { KernelOfNode } from './kernel-of-node.ts';
import { RANDOM } from '../service-ops.ts';

/**
 * The common part of the modes that translate addresses by rules. Endpoints are chosen at random, and there are neither
 * kube-ipvs0 nor counters of virtual servers.
 */
export abstract class TranslatingKernel extends KernelOfNode {
  abstract readonly mode: Kernel['mode'];
  abstract getSets(names: readonly string[]): Promise<ObservedIpSet[]>;
  #hasIpv6 = false;

  readonly getBoundAddresses: Kernel['getBoundAddresses'] = () => Promise.resolve([]);
  readonly getLocalRoutes: Kernel['getLocalRoutes'] = () => Promise.resolve([]);
  readonly getVirtualServerStats: Kernel['getVirtualServerStats'] = () =>
    Promise.resolve(new Map<VirtualServerKey, never>());
  readonly getRealServerStats: Kernel['getRealServerStats'] = () => Promise.resolve(new Map<VirtualServerKey, never>());
  readonly confirmRealServers: Kernel['confirmRealServers'] = () => Promise.resolve(new Set());
  readonly getTrafficTotals: Kernel['getTrafficTotals'] = () => Promise.resolve(undefined);
  readonly getIpvsTimeouts: Kernel['getIpvsTimeouts'] = () => Promise.resolve({ tcp: 0, tcpFin: 0, udp: 0 });
  readonly setIpvsTimeouts: Kernel['setIpvsTimeouts'] = () => Promise.resolve();

  /** The rules are removed with the tables, or as leftovers of the mode. */
  readonly removeRules: Kernel['removeRules'] = () => Promise.resolve();

  async findSets(names: readonly string[]): Promise<Map<string, IpSet>> {
    return new Map((await this.getSets(names)).map((set) => [set.name, set]));
  }

  probeScheduler(scheduler: string): Promise<void> {
    if (scheduler === RANDOM) return Promise.resolve();
    const message = `${this.mode} mode chooses endpoints at random`;
    return Promise.reject(new KernelError('probeScheduler', 'EOPNOTSUPP', message));
  }

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
