import { type IpAddress, type IpFamily, isLinkLocal6, familyOf } from '../net/ip.ts';
import type { LocalRoute } from '../state/local-route.ts';
import { type Op, formatOp } from '../state/op.ts';
import type { OpFailure, Outcome } from '../state/outcome.ts';
import { type ObservedRealServer, type RealServer, realServerKey } from '../state/real-server.ts';
import type { RuleSet } from '../state/rule-set.ts';
import type { Transaction } from '../state/transaction.ts';
import {
  type VirtualServer,
  type VirtualServerId,
  type VirtualServerKey,
  virtualServerKey,
} from '../state/virtual-server.ts';
import { codeOf, textOf } from './errno.ts';
import { FakeTables, NO_TRAFFIC } from './fake-tables.ts';
import { KernelError } from './kernel-error.ts';
import { checkSysctlKey } from './sysctl.ts';
import type {
  Flow,
  IpvsTimeouts,
  Kernel,
  KernelCounters,
  NodeAddress,
  ObservedIpSet,
  RealServerStats,
  VirtualServerStats,
} from './kernel.ts';

/** Answers a positive errno for an operation that shall fail, else undefined. Asked before each operation. */
export type FailOp = (op: Op) => number | undefined;

/** Methods of Kernel that can be made to reject as a whole. */
export type FailableMethod = Exclude<keyof Kernel, 'watchNodeAddresses' | 'counters' | 'close'>;

const SCHEDULERS = ['rr', 'wrr', 'lc', 'wlc', 'lblc', 'lblcr', 'sh', 'dh', 'mh', 'sed', 'nq', 'fo', 'ovf'];

const SYSCTLS: Readonly<Record<string, string>> = {
  'net/ipv4/vs/conntrack': '0',
  'net/ipv4/vs/conn_reuse_mode': '1',
  'net/ipv4/vs/expire_nodest_conn': '0',
  'net/ipv4/vs/expire_quiescent_template': '0',
  'net/ipv4/vs/run_estimation': '1',
  'net/ipv4/ip_forward': '0',
  'net/ipv4/tcp_keepalive_time': '7200',
  'net/ipv4/conf/all/arp_ignore': '0',
  'net/ipv4/conf/all/arp_announce': '0',
  'net/ipv4/conf/all/route_localnet': '0',
  'net/netfilter/nf_conntrack_max': '65536',
  'net/netfilter/nf_conntrack_tcp_timeout_established': '432000',
  'net/netfilter/nf_conntrack_tcp_timeout_close_wait': '60',
  'net/netfilter/nf_conntrack_tcp_be_liberal': '0',
  'net/netfilter/nf_conntrack_udp_timeout': '30',
  'net/netfilter/nf_conntrack_udp_timeout_stream': '120',
};

/**
 * A kernel in memory that passes the same contract tests as the real one, and can be told to fail. What the kernel holds
 * survives a "crash" of the daemon, so a second reconciler on the same fake sees what the first one left behind.
 */
export class FakeKernel implements Kernel {
  readonly schedulers = new Set(SCHEDULERS);
  readonly sysctls = new Map(Object.entries(SYSCTLS));
  readonly tables = new FakeTables({
    schedulers: this.schedulers,
    setInUse: (name) => this.#setInUse(name),
  });
  /** Operations that reached the tables, in order; empty it when it is no longer of interest. */
  readonly applied: Op[] = [];
  /** How often each method was called. */
  readonly calls = new Map<string, number>();
  readonly #counters = {
    writes: 0,
    netlinkMessages: 0,
    netlinkSends: 0,
    netlinkBytesSent: 0,
    netlinkBytesReceived: 0,
    netlinkSystemCalls: 0,
    processesStarted: 0,
  };
  readonly #rules = new Map<IpFamily, RuleSet>();
  readonly #watchers = new Set<() => void>();
  readonly #failing = new Map<string, KernelError>();
  #failOp: FailOp = () => undefined;
  #opsUntilCrash = Infinity;
  #flows: readonly Flow[] = [];
  #nodeAddresses: readonly NodeAddress[] = [];
  #timeouts: IpvsTimeouts = { tcp: 900, tcpFin: 120, udp: 300 };

  get counters(): Readonly<KernelCounters> {
    return this.#counters;
  }

  // What a test tells it.

  /** Operations for which the function answers an errno fail with it and do nothing. */
  failOps(failOp: FailOp): void {
    this.#failOp = failOp;
  }

  /** Every call of the method rejects with this code, until it is told otherwise (undefined). */
  failMethod(method: FailableMethod, code: string | undefined): void {
    if (code === undefined) this.#failing.delete(method);
    else this.#failing.set(method, new KernelError(method, code, `${method} was told to fail with ${code}`));
  }

  /** The next `ops` operations are done; then apply rejects with code "CRASHED" in the middle of its transaction. */
  crashAfter(ops: number): void {
    this.#opsUntilCrash = ops;
  }

  /** Ends all that was injected; what the kernel holds stays. */
  recover(): void {
    this.#failing.clear();
    this.#failOp = () => undefined;
    this.#opsUntilCrash = Infinity;
  }

  /** Something that others put there, past all injected failures; answers the errno. */
  put(op: Op): number {
    return this.tables.apply(op);
  }

  /** A real server as the kernel shall report it (connections, another forwarding method). It must be there. */
  setObserved(id: VirtualServerId, server: RealServer, change: Partial<ObservedRealServer>): void {
    const servers = this.tables.virtualServers.get(virtualServerKey(id))?.realServers;
    const present = servers?.get(realServerKey(server));
    if (servers === undefined || present === undefined) throw new Error('no such real server in the fake kernel');
    servers.set(realServerKey(server), { ...present, ...change });
  }

  /** Traffic as the kernel shall report it; what is not named stays. The virtual server must be there. */
  setStats(id: VirtualServerId, change: Partial<VirtualServerStats>): void {
    const present = this.tables.virtualServers.get(virtualServerKey(id));
    if (present === undefined) throw new Error('no such virtual server in the fake kernel');
    present.stats = { ...present.stats, ...change };
  }

  /** The same for a real server, which must be there. */
  setRealServerStats(id: VirtualServerId, server: RealServer, change: Partial<VirtualServerStats>): void {
    const virtualServer = this.tables.virtualServers.get(virtualServerKey(id));
    const key = realServerKey(server);
    if (virtualServer?.realServers.has(key) !== true) throw new Error('no such real server in the fake kernel');
    const present = virtualServer.realServerStats.get(key) ?? NO_TRAFFIC;
    virtualServer.realServerStats.set(key, { ...present, ...change });
  }

  setNodeAddresses(addresses: readonly NodeAddress[]): void {
    this.#nodeAddresses = addresses;
    for (const watcher of this.#watchers) watcher();
  }

  setUdpFlows(flows: readonly Flow[]): void {
    this.#flows = flows;
  }

  /** As if someone had flushed the tables. */
  flushRules(family: IpFamily): void {
    this.#rules.delete(family);
  }

  rules(family: IpFamily): RuleSet | undefined {
    return this.#rules.get(family);
  }

  // What a daemon calls.

  async prepare(): Promise<void> {
    await this.#enter('prepare');
    if (!this.tables.device) this.#counters.writes++;
    this.tables.device = true;
  }

  async getVirtualServers(): Promise<VirtualServer[]> {
    await this.#enter('getVirtualServers');
    return [...this.tables.virtualServers.values()].map(({ virtualServer }) => virtualServer);
  }

  async getVirtualServerStats(): Promise<Map<VirtualServerKey, VirtualServerStats>> {
    await this.#enter('getVirtualServerStats');
    return new Map(Array.from(this.tables.virtualServers, ([key, { stats }]) => [key, stats]));
  }

  async findVirtualServers(ids: readonly VirtualServerId[]): Promise<Map<VirtualServerKey, VirtualServer>> {
    await this.#enter('findVirtualServers');
    const found = new Map<VirtualServerKey, VirtualServer>();
    for (const key of ids.map(virtualServerKey)) {
      const present = this.tables.virtualServers.get(key);
      if (present !== undefined) found.set(key, present.virtualServer);
    }
    return found;
  }

  async getRealServers(ids: readonly VirtualServerId[]): Promise<Map<VirtualServerKey, ObservedRealServer[]>> {
    await this.#enter('getRealServers');
    const found = new Map<VirtualServerKey, ObservedRealServer[]>();
    for (const key of ids.map(virtualServerKey)) {
      const present = this.tables.virtualServers.get(key);
      if (present !== undefined) found.set(key, [...present.realServers.values()]);
    }
    return found;
  }

  async getRealServerStats(ids: readonly VirtualServerId[]): Promise<Map<VirtualServerKey, RealServerStats[]>> {
    await this.#enter('getRealServerStats');
    const found = new Map<VirtualServerKey, RealServerStats[]>();
    for (const key of ids.map(virtualServerKey)) {
      const present = this.tables.virtualServers.get(key);
      if (present === undefined || present.realServers.size === 0) continue;
      const servers = Array.from(present.realServers, ([server, observed]) => {
        const { address, port, activeConnections, inactiveConnections } = observed;
        const traffic = present.realServerStats.get(server) ?? NO_TRAFFIC;
        return { address, port, activeConnections, inactiveConnections, ...traffic };
      });
      found.set(key, servers);
    }
    return found;
  }

  async getSets(): Promise<ObservedIpSet[]> {
    await this.#enter('getSets');
    const ours = [...this.tables.sets.values()].filter(({ set }) => set.name.startsWith('KUBE-'));
    return ours.map(({ set, entries }) => ({ ...set, entries: [...entries.values()] }));
  }

  async getBoundAddresses(): Promise<IpAddress[]> {
    await this.#enter('getBoundAddresses');
    return [...this.tables.bound].filter((address) => !isLinkLocal6(address));
  }

  async getLocalRoutes(): Promise<LocalRoute[]> {
    await this.#enter('getLocalRoutes');
    return [...this.tables.routes.values()];
  }

  async getNodeAddresses(): Promise<NodeAddress[]> {
    await this.#enter('getNodeAddresses');
    return [...this.#nodeAddresses];
  }

  async apply({ ops }: Transaction): Promise<Outcome> {
    await this.#enter('apply');
    const failures: OpFailure[] = [];
    for (const op of ops) {
      if (this.#opsUntilCrash <= 0) throw new KernelError('apply', 'CRASHED', `crashed before: ${formatOp(op)}`);
      this.#opsUntilCrash--;
      this.#counters.writes++;
      const errno = this.#failOp(op) ?? this.tables.apply(op);
      if (errno === 0) {
        this.applied.push(op);
        continue;
      }
      const code = codeOf(errno, 'set' in op ? op.set.type : undefined);
      failures.push({ op, errno, code, text: textOf(code) });
    }
    return { attempted: ops.length, failures };
  }

  async probeRules(): Promise<void> {
    await this.#enter('probeRules');
  }

  async ensureRules(rules: RuleSet): Promise<{ readonly changed: boolean }> {
    await this.#enter('ensureRules');
    return this.#writeRules(rules);
  }

  async addRules(rules: RuleSet): Promise<boolean> {
    await this.#enter('addRules');
    const there = this.#rules.get(rules.family);
    if (there !== undefined && JSON.stringify(there.chains) !== JSON.stringify(rules.chains)) return false;
    this.#writeRules(rules);
    return true;
  }

  #writeRules(rules: RuleSet): { readonly changed: boolean } {
    const changed = JSON.stringify(this.#rules.get(rules.family)) !== JSON.stringify(rules);
    if (changed) {
      const missing = matchedSets(rules).find((name) => !this.tables.sets.has(name));
      if (missing !== undefined) {
        throw new KernelError('ensureRules', 'ENOENT', `Set ${missing} doesn't exist: create it before its rules`);
      }
      this.#counters.writes++;
      this.#rules.set(rules.family, structuredClone(rules));
    }
    return { changed };
  }

  async removeRules(rules: RuleSet): Promise<void> {
    await this.#enter('removeRules');
    if (this.#rules.delete(rules.family)) this.#counters.writes++;
  }

  async getUdpFlows(family: IpFamily): Promise<Flow[]> {
    await this.#enter('getUdpFlows');
    return this.#flows.filter((flow) => flow.family === family && flow.protocol === 'UDP');
  }

  async deleteFlows(flows: readonly Flow[]): Promise<number> {
    await this.#enter('deleteFlows');
    const gone = new Set(flows.map(flowKey));
    const left = this.#flows.filter((flow) => !gone.has(flowKey(flow)));
    const deleted = this.#flows.length - left.length;
    this.#flows = left;
    this.#counters.writes += flows.length;
    return deleted;
  }

  async getSysctl(key: string): Promise<string | undefined> {
    await this.#enter('getSysctl');
    checkSysctlKey(key);
    return this.sysctls.get(key);
  }

  async setSysctl(key: string, value: string): Promise<{ readonly changed: boolean; readonly before: string }> {
    await this.#enter('setSysctl');
    checkSysctlKey(key);
    const before = this.sysctls.get(key);
    if (before === undefined) throw new KernelError('setSysctl', 'ENOENT', `sysctl ${key} does not exist`);
    if (before === value) return { changed: false, before };
    this.sysctls.set(key, value);
    this.#counters.writes++;
    return { changed: true, before };
  }

  async setIpvsTimeouts({ tcp, tcpFin, udp }: IpvsTimeouts): Promise<void> {
    await this.#enter('setIpvsTimeouts');
    const now = this.#timeouts;
    this.#timeouts = { tcp: tcp || now.tcp, tcpFin: tcpFin || now.tcpFin, udp: udp || now.udp };
    this.#counters.writes++;
  }

  async getIpvsTimeouts(): Promise<IpvsTimeouts> {
    await this.#enter('getIpvsTimeouts');
    return this.#timeouts;
  }

  async probeScheduler(scheduler: string): Promise<void> {
    await this.#enter('probeScheduler');
    if (!this.schedulers.has(scheduler)) {
      const message = `the kernel has no IPVS scheduler ${scheduler}: is the module ip_vs_${scheduler} missing?`;
      throw new KernelError('probeScheduler', 'ENOENT', message);
    }
  }

  watchNodeAddresses(onChange: () => void): () => void {
    // Not the callback itself: the same one may be registered twice.
    const watcher = (): void => onChange();
    this.#watchers.add(watcher);
    return () => {
      this.#watchers.delete(watcher);
    };
  }

  async removeDevice(): Promise<void> {
    await this.#enter('removeDevice');
    if (this.tables.device) this.#counters.writes++;
    this.tables.device = false;
    this.tables.bound.clear();
  }

  async close(): Promise<void> {
    this.#watchers.clear();
    await Promise.resolve();
  }

  // Never answers at once: a caller that relies on that would be wrong with the real kernel.
  async #enter(method: FailableMethod): Promise<void> {
    this.calls.set(method, (this.calls.get(method) ?? 0) + 1);
    await Promise.resolve();
    const error = this.#failing.get(method);
    if (error !== undefined) throw error;
  }

  #setInUse(name: string): boolean {
    return [...this.#rules.values()].some((rules) => matchedSets(rules).includes(name));
  }
}

/** Sets that rules refer to: the word behind --match-set. */
function matchedSets(rules: RuleSet): string[] {
  const all = rules.chains.flatMap((chain) => chain.rules);
  return all.flatMap((rule) => rule.filter((_, index) => rule[index - 1] === '--match-set'));
}

function flowKey(flow: Flow): string {
  const { protocol, source, sourcePort, destination, destinationPort } = flow;
  return [familyOf(source), protocol, source, sourcePort, destination, destinationPort].join(' ');
}
