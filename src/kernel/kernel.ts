import type { IpAddress, IpFamily } from '../net/ip.ts';
import type { Port } from '../net/port.ts';
import type { Protocol } from '../net/protocol.ts';
import type { IpSet, IpSetEntry } from '../state/ip-set.ts';
import type { LocalRoute } from '../state/local-route.ts';
import type { Outcome } from '../state/outcome.ts';
import type { ObservedRealServer, RealServer } from '../state/real-server.ts';
import type { RuleSet } from '../state/rule-set.ts';
import type { Transaction } from '../state/transaction.ts';
import type { VirtualServer, VirtualServerId, VirtualServerKey } from '../state/virtual-server.ts';

export type { RuleChain, RuleJump, RuleSet } from '../state/rule-set.ts';

/** A set with what is in it. */
export interface ObservedIpSet extends IpSet {
  readonly entries: readonly IpSetEntry[];
}

/** An address on one of this node's interfaces. */
export interface NodeAddress {
  readonly address: IpAddress;
  readonly prefix: number;
  readonly interfaceName: string;
  /** IFA_F_TENTATIVE or IFA_F_DADFAILED: not usable (yet). */
  readonly tentative: boolean;
}

/** Tells one flow of connection tracking: the original direction and who answers. */
export interface Flow {
  readonly family: IpFamily;
  readonly protocol: Protocol;
  readonly source: IpAddress;
  readonly sourcePort: Port;
  readonly destination: IpAddress;
  readonly destinationPort: Port;
  readonly replySource: IpAddress;
  readonly replySourcePort: Port;
}

/** What went through a virtual server since it was made (or its counters were zeroed). In is towards the real servers. */
export interface VirtualServerStats {
  readonly connections: number;
  readonly incomingPackets: number;
  readonly outgoingPackets: number;
  readonly incomingBytes: number;
  readonly outgoingBytes: number;
}

/** What one real server of a virtual server carried since it was added, and its connections now. */
export interface RealServerStats extends VirtualServerStats, Pick<RealServer, 'address' | 'port'> {
  readonly activeConnections: number;
  readonly inactiveConnections: number;
}

/**
 * The kernel of one node (one network namespace), as far as a service proxy needs it. One implementation talks to the real
 * kernel, one keeps all in memory and fails with real errnos; both pass test/contract. Methods reject with a
 * KernelError where nothing at all could be read or done; what happens to single objects is in the Outcome.
 */
export interface Kernel {
  /** Once, before anything is applied: modules, sockets, and last kube-ipvs0. Idempotent. */
  prepare(): Promise<void>;

  /** All virtual servers by address (firewall-mark ones are left out), both families. */
  getVirtualServers(): Promise<VirtualServer[]>;
  /**
   * Counters of all of them, from one dump. The kernel brings them up to date about every two seconds. Nothing else waits for this, nor
   * for getRealServerStats.
   */
  getVirtualServerStats(): Promise<Map<VirtualServerKey, VirtualServerStats>>;
  /** Just these; absent in the result where the kernel has none. Cost follows the number asked for. */
  findVirtualServers(ids: readonly VirtualServerId[]): Promise<Map<VirtualServerKey, VirtualServer>>;
  /** Real servers of each; an id that the kernel does not have is absent in the result. */
  getRealServers(ids: readonly VirtualServerId[]): Promise<Map<VirtualServerKey, ObservedRealServer[]>>;
  /** Counters of the real servers of each; an id without any, or that the kernel does not have, is absent in the result. */
  getRealServerStats(ids: readonly VirtualServerId[]): Promise<Map<VirtualServerKey, RealServerStats[]>>;
  /** All sets whose name starts with KUBE-, with entries. Of other types than ours: entries empty. */
  getSets(): Promise<ObservedIpSet[]>;
  /** Addresses bound to kube-ipvs0 (link-local IPv6 left out). */
  getBoundAddresses(): Promise<IpAddress[]>;
  /** Local routes of the loopback interface that stand for no address of it. */
  getLocalRoutes(): Promise<LocalRoute[]>;
  /** Addresses of every other interface, loopback included. */
  getNodeAddresses(): Promise<NodeAddress[]>;

  /** Runs the operations in the order given; one that fails never stops the others. */
  apply(transaction: Transaction): Promise<Outcome>;

  /** Rejects when rules of the family cannot be written here: a program or a table is missing. Writes nothing. */
  probeRules(family: IpFamily): Promise<void>;
  /** Makes the rules so, with at most one iptables-restore; answers whether anything had to be written. */
  ensureRules(rules: RuleSet): Promise<{ readonly changed: boolean }>;
  /** As ensureRules, unless a chain of these names holds other rules already: writes nothing then, and answers false. */
  addRules(rules: RuleSet): Promise<boolean>;
  /** Removes the jumps and chains; what is not there is fine. */
  removeRules(rules: RuleSet): Promise<void>;

  /** UDP flows of a family. */
  getUdpFlows(family: IpFamily): Promise<Flow[]>;
  /** Answers how many were still there. */
  deleteFlows(flows: readonly Flow[]): Promise<number>;

  /** Reads net/ipv4/... under /proc/sys; undefined where the key does not exist. */
  getSysctl(key: string): Promise<string | undefined>;
  /** Reads first, writes only on a difference; answers whether it wrote. */
  setSysctl(key: string, value: string): Promise<{ readonly changed: boolean; readonly before: string }>;
  /** Sets only those over 0; seconds. */
  setIpvsTimeouts(timeouts: IpvsTimeouts): Promise<void>;
  getIpvsTimeouts(): Promise<IpvsTimeouts>;
  /** Proves that the scheduler is there by adding and removing a throwaway virtual server (198.51.100.0:20000 TCP). */
  probeScheduler(scheduler: string): Promise<void>;

  /** Calls back whenever an address of any interface but kube-ipvs0 came or went; returns a function that stops it. */
  watchNodeAddresses(onChange: () => void): () => void;

  /** Deletes kube-ipvs0 (clean-up). */
  removeDevice(): Promise<void>;

  /** Counters since the start; `writes` counts messages that change the kernel, at the socket. */
  readonly counters: Readonly<KernelCounters>;
  close(): Promise<void>;
}

export interface IpvsTimeouts {
  readonly tcp: number;
  readonly tcpFin: number;
  readonly udp: number;
}

export interface KernelCounters {
  readonly writes: number;
  readonly netlinkMessages: number;
  readonly netlinkSends: number;
  readonly netlinkBytesSent: number;
  readonly netlinkBytesReceived: number;
  /** On the sockets of transactions; not those of the threads' own waiting. */
  readonly netlinkSystemCalls: number;
  readonly processesStarted: number;
}
