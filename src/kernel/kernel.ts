import type { Cidr } from '../base/cidr.ts';
import type { IpAddress, IpFamily } from '../base/ip.ts';
import type { Port } from '../base/port.ts';
import type { Protocol } from '../base/protocol.ts';
import type { ProxyMode } from '../base/proxy-mode.ts';
import type { IpSet, IpSetEntry } from '../state/ip-set.ts';
import type { BoundAddress } from '../state/bound-address.ts';
import type { LocalRoute } from '../state/local-route.ts';
import type { OtherRules } from '../state/rules/other-rules.ts';
import type { Op } from '../state/op.ts';
import type { Outcome } from '../state/outcome.ts';
import type { Preview } from '../state/commands/write-preview.ts';
import type { Endpoint, ObservedRealServer, RealServer } from '../state/real-server.ts';
import type { Route } from '../state/route.ts';
import type { RuleSet } from '../state/rules/rule-set.ts';
import type { RulesInForce, RulesWritten } from '../state/rules/rules-in-force.ts';
import type { Transaction } from '../state/transaction.ts';
import type { VirtualServer, VirtualServerId, VirtualServerKey } from '../state/virtual-server.ts';
import type { RealServerStats, VirtualServerStats } from '../state/server-stats.ts';

export interface ObservedIpSet extends IpSet {
  readonly entries: readonly IpSetEntry[];
}

export type ExpectedServers = ReadonlyMap<VirtualServerKey, readonly Endpoint[]>;

/** The real servers that a virtual server must have, sorted by address and port. */
export interface ServerList {
  /** As getVirtualServers() has returned it. */
  readonly virtualServer: VirtualServer;
  readonly realServers: readonly RealServer[];
}

/** An address on one of this node's interfaces. */
export interface NodeAddress {
  readonly address: IpAddress;
  readonly prefix: number;
  readonly interfaceName: string;
  /** Whether IFA_F_TENTATIVE or IFA_F_DADFAILED is set: the address is not usable (yet). */
  readonly tentative: boolean;
}

/** A conntrack flow: addresses and ports of the original direction, and the source of the reply direction. */
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

/**
 * The kernel state of one node, for reading. No method changes the node, except that the kernel may load modules of
 * its own to answer. A dry run gets only this part of the kernel.
 */
export interface KernelReader {
  /**
   * Returns all virtual servers of both families, except those defined by a firewall mark (fwmark). Those of the families in
   * `without` need not be readable, and may be left out.
   */
  getVirtualServers(without?: ReadonlySet<IpFamily>): Promise<VirtualServer[]>;
  /**
   * Returns the counters of these virtual servers or, without `ids`, of all, from one dump. The kernel updates them about
   * every two seconds. Other calls do not wait for this one or for getRealServerStats.
   */
  getVirtualServerStats(ids?: readonly VirtualServerId[]): Promise<Map<VirtualServerKey, VirtualServerStats>>;
  /**
   * Returns the counters of this network namespace: of all virtual servers, also those of other programs and deleted ones. Undefined if
   * ip_vs is not loaded. The cost does not depend on the number of virtual servers.
   */
  getTrafficTotals(): Promise<VirtualServerStats | undefined>;
  /**
   * Returns these virtual servers; those that do not exist are absent. The cost grows with the number of ids.
   * `traits` are the expected ones: a kernel that finds them need not look for others.
   */
  findVirtualServers(
    ids: readonly (VirtualServerId & Pick<VirtualServer, 'traits'>)[],
  ): Promise<Map<VirtualServerKey, VirtualServer>>;
  /**
   * Returns the real servers of each virtual server: none of one that has the list of another (see findServing()); one that does not exist, or has none, may be absent. With those that the
   * caller expects, a kernel may answer from memory which of them exist; apply() then looks up what it replaces.
   */
  getRealServers(
    ids: readonly VirtualServerId[],
    expected?: ExpectedServers,
  ): Promise<Map<VirtualServerKey, ObservedRealServer[]>>;
  /**
   * Returns those of these virtual servers that have exactly these real servers. It leaves out those of which a kernel cannot tell
   * that at less cost than getRealServers(). A tunnel that another forwarding method has left does not count.
   */
  confirmRealServers(lists: readonly ServerList[]): Promise<ReadonlySet<VirtualServerKey>>;
  /** Returns the counters of the real servers of each virtual server; those without real servers are absent. */
  getRealServerStats(ids: readonly VirtualServerId[]): Promise<Map<VirtualServerKey, RealServerStats[]>>;
  /**
   * Returns the sets with these names or, without `names`, all whose name starts with KUBE- or KUBE~, with entries.
   * Entries of types that the program does not use are left out. Sets of the families in `without` need not be readable, and
   * may be left out.
   */
  getSets(names?: readonly string[], without?: ReadonlySet<IpFamily>): Promise<ObservedIpSet[]>;
  /** Returns the sets with these names, without entries; those that do not exist are absent. */
  findSets(names: readonly string[]): Promise<Map<string, IpSet>>;
  /** Returns the addresses of kube-ipvs0, except link-local IPv6; none if it is not a dummy interface. */
  getBoundAddresses(): Promise<BoundAddress[]>;
  /** Returns local routes of the loopback interface, except those of its own addresses. */
  getLocalRoutes(): Promise<LocalRoute[]>;
  /** Returns the route that the kernel chooses for each address; those without a route are absent. */
  findRoutes(destinations: readonly IpAddress[]): Promise<Map<IpAddress, Route>>;
  /**
   * Returns the interfaces that do not forward the IPv4 packets that they receive (net.ipv4.conf.IF.forwarding is 0). Those
   * that are down or ports of a bridge, the loopback interface and kube-ipvs0 are left out.
   */
  findUnforwarded(): Promise<string[]>;
  /** Returns the addresses of all interfaces except kube-ipvs0, including loopback. */
  getNodeAddresses(): Promise<NodeAddress[]>;
  getUdpFlows(family: IpFamily): Promise<Flow[]>;
  /** Returns which addresses of these networks are the source of a flow, whatever its protocol. */
  getFlowSources(family: IpFamily, among: readonly Cidr[]): Promise<Set<IpAddress>>;

  /** Returns the variant of iptables in use ("nft", "legacy", "system"). Rejects if rules of the family cannot be read. */
  findRuleVariant(family: IpFamily): Promise<string>;
  /** Returns by which iptables commands the rules in force differ from these, and what they have counted. */
  compareRules(rules: RuleSet): Promise<RulesInForce>;
  /** Discards what was read before this time (performance.now()). */
  forgetReadings(before: number): Promise<void>;
  /** Returns which commands would establish the rules, and then each part of a change. */
  preview(rules: readonly RuleSet[], parts: readonly (readonly Op[])[]): Promise<Preview>;

  /**
   * Returns our nf_tables tables of all families as the lines of a script for nft; none in modes without them. Of each set,
   * at most `mostElements` are listed.
   */
  listTables(mostElements: number): Promise<readonly string[]>;

  /** Returns what other programs may have on the way of packets. Runs iptables-save. */
  getOtherRules(family: IpFamily): Promise<OtherRules>;

  /** Reads a key such as net/ipv4/ip_forward under /proc/sys; undefined if it does not exist. */
  getSysctl(key: string): Promise<string | undefined>;
  getIpvsTimeouts(): Promise<IpvsTimeouts>;

  /**
   * Calls `onChange` if an address of any interface except kube-ipvs0 is added or removed, and `onStateLost`, with the
   * reason, if another program removes kube-ipvs0 or all virtual servers. Returns a function that stops the watch.
   */
  watchNode(onChange: () => void, onStateLost: (reason: string) => void): () => void;

  /** What is programmed. In other modes than ipvs, all virtual servers are of this program: its tables or chains have no others. */
  readonly mode: ProxyMode;
  /** Counters since the start of the program; `writes` counts the changes sent to the kernel. */
  readonly counters: Readonly<KernelCounters>;
  close(): Promise<void>;
}

/**
 * The kernel of one node (one network namespace). There are two implementations, the real kernel and one in memory for
 * tests, which returns the same errnos; both pass test/contract. Methods reject with a KernelError if a call fails as a
 * whole; failures of single objects are in the Outcome.
 */
export interface Kernel extends KernelReader {
  /** Loads modules, opens sockets, and creates kube-ipvs0 last. Call it before `apply`. Idempotent. */
  prepare(): Promise<void>;
  /**
   * Creates kube-ipvs0 if it is missing. Rejects with a KernelError if it cannot be created, or if an interface of another kind has its
   * name; that interface is left unchanged.
   */
  ensureDevice(): Promise<{ readonly made: boolean }>;

  /**
   * Returns a number that changes whenever any program changes what full checks compare, such as the generation of
   * the nf_tables ruleset; undefined if there is none.
   */
  getGeneration(): Promise<number | undefined>;
  /** Whether it is known that only this program has changed anything since, and that all these changes succeeded. */
  hasOnlyOwnChangesSince(generation: number): Promise<boolean>;

  /** Applies the operations in the order of their phases. A failed operation does not stop the others. */
  apply(transaction: Transaction): Promise<Outcome>;

  /**
   * Returns the variant of iptables in use ("nft", "legacy", "system"). Rejects if rules of the family cannot be written because a program
   * or a table is missing. Leaves nothing behind, but may run iptables-restore --test or commit a transaction without effect.
   */
  probeRules(family: IpFamily): Promise<string>;
  /** Applies the rules with at most one iptables-restore. */
  ensureRules(rules: RuleSet): Promise<RulesWritten>;
  /** Like ensureRules, but writes nothing and returns false if one of the chains already contains other rules. */
  addRules(rules: RuleSet): Promise<boolean>;
  /** Removes the jumps and chains; missing ones are not an error. */
  removeRules(rules: RuleSet): Promise<void>;

  /** Returns how many of the flows still existed. */
  deleteFlows(flows: readonly Flow[]): Promise<number>;

  /** Writes the value if it differs. Returns whether it was written, and the previous value. */
  setSysctl(key: string, value: string): Promise<{ readonly changed: boolean; readonly before: string }>;
  /** Sets the timeouts, in seconds; a timeout of 0 is not changed. */
  setIpvsTimeouts(timeouts: IpvsTimeouts): Promise<void>;
  /** Checks that the scheduler exists by adding and removing a temporary virtual server (198.51.100.0:20000 TCP). */
  probeScheduler(scheduler: string): Promise<void>;

  /** Deletes kube-ipvs0, for --cleanup. */
  removeDevice(): Promise<void>;
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
  /** System calls made by transactions, without the calls of the threads that wait for multicast messages. */
  readonly netlinkSystemCalls: number;
  readonly processesStarted: number;
}
