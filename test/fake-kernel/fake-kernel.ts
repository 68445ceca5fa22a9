import { MODES } from '../../src/base/proxy-mode.ts';
import { type Cidr, cidrContains, cidrOf, containedIn } from '../../src/base/cidr.ts';
import { type IpAddress, type IpFamily, isLinkLocal6 } from '../../src/base/ip.ts';
import { type BoundAddress, hostPrefix } from '../../src/state/bound-address.ts';
import type { IpSet } from '../../src/state/ip-set.ts';
import type { LocalRoute } from '../../src/state/local-route.ts';
import { type Op, formatOp } from '../../src/state/op.ts';
import type { OpFailure, Outcome } from '../../src/state/outcome.ts';
import {
  type ObservedRealServer,
  type RealServer,
  hasSameServerSettings,
  realServerKey,
} from '../../src/state/real-server.ts';
import { type Preview, toolCommands } from '../../src/state/commands/write-preview.ts';
import type { Route } from '../../src/state/route.ts';
import { NO_OTHER_RULES, type OtherRules } from '../../src/state/rules/other-rules.ts';
import type { RuleSet } from '../../src/state/rules/rule-set.ts';
import { type RulesInForce, type RulesWritten, ruleChainKey } from '../../src/state/rules/rules-in-force.ts';
import type { Transaction } from '../../src/state/transaction.ts';
import {
  type VirtualServer,
  type VirtualServerId,
  type VirtualServerKey,
  virtualServerKey,
} from '../../src/state/virtual-server.ts';
import { codeOf, textOf } from '../../src/kernel/errno.ts';
import { SCHEDULERS, SYSCTLS } from './fake-defaults.ts';
import { FakeTables, flowKey, matchedSets } from './fake-tables.ts';
import { checkTimeouts } from './fake-timeouts.ts';
import { KernelError } from '../../src/kernel/kernel-error.ts';
import { checkSysctlKey } from '../../src/kernel/linux/sysctl.ts';
import type {
  Flow,
  IpvsTimeouts,
  Kernel,
  KernelCounters,
  NodeAddress,
  ObservedIpSet,
  ServerList,
} from '../../src/kernel/kernel.ts';
import { NO_STATS, type RealServerStats, type VirtualServerStats } from '../../src/state/server-stats.ts';

/** Called before each operation. Returns a positive errno if the operation should fail, else undefined. */
export type FailOp = (op: Op) => number | undefined;

/** Methods of Kernel that can be set to reject as a whole. */
export type FailableMethod = Exclude<keyof Kernel, 'watchNode' | 'counters' | 'mode' | 'close'>;

/**
 * A kernel in memory that passes the same contract tests as the real one and can inject failures. Its state survives a
 * "crash" of the daemon, so a second reconciler on the same fake sees the state that the first one left.
 */
export class FakeKernel implements Kernel {
  readonly mode: Kernel['mode'];
  readonly schedulers = new Set(SCHEDULERS);
  readonly sysctls = new Map(Object.entries(SYSCTLS));
  readonly tables = new FakeTables({
    schedulers: this.schedulers,
    setInUse: (name) => this.#setInUse(name),
  });
  /** Operations that were applied to the tables, in order. Tests may empty it. */
  readonly applied: Op[] = [];
  /** Number of calls of each method. */
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
  otherRules: OtherRules = { ...NO_OTHER_RULES, variant: 'nft' };
  /** The interfaces that do not forward IPv4. */
  readonly unforwarded = new Set<string>();
  readonly #rules = new Map<IpFamily, RuleSet>();
  readonly #watchers = new Set<{ onChange: () => void; onStateLost: (reason: string) => void }>();
  readonly #failing = new Map<string, KernelError>();
  #failOp: FailOp = () => undefined;
  #opsUntilCrash = Infinity;
  #flows: readonly Flow[] = [];
  #nodeAddresses: readonly NodeAddress[] = [];
  #timeouts: IpvsTimeouts = { tcp: 900, tcpFin: 120, udp: 300 };

  constructor(mode: Kernel['mode'] = 'ipvs') {
    this.mode = mode;
    if (!MODES[mode].hasIpvs) this.schedulers.add('random');
  }

  get counters(): Readonly<KernelCounters> {
    return this.#counters;
  }

  // Methods for tests.

  /** Operations for which the function returns an errno fail with it and have no effect. */
  failOps(failOp: FailOp): void {
    this.#failOp = failOp;
  }

  /** Every call of the method rejects with this code, until it is set to undefined. */
  failMethod(method: FailableMethod, code: string | undefined): void {
    if (code === undefined) this.#failing.delete(method);
    else this.#failing.set(method, new KernelError(method, code, `${method} was told to fail with ${code}`));
  }

  /** After the next `ops` operations, apply() rejects with code "CRASHED" in the middle of its transaction. */
  crashAfter(ops: number): void {
    this.#opsUntilCrash = ops;
  }

  /** Removes all injected failures; the state of the kernel is kept. */
  recover(): void {
    this.#failing.clear();
    this.#failOp = () => undefined;
    this.#opsUntilCrash = Infinity;
  }

  /** Applies an operation of another program, regardless of injected failures; returns the errno. */
  put(op: Op): number {
    return this.tables.apply(op);
  }

  /** Changes what the kernel reports for an existing real server (connections, forwarding method). */
  setObserved(id: VirtualServerId, server: RealServer, change: Partial<ObservedRealServer>): void {
    const servers = this.tables.virtualServers.get(virtualServerKey(id))?.realServers;
    const present = servers?.get(realServerKey(server));
    if (servers === undefined || present === undefined) throw new Error('no such real server in the fake kernel');
    servers.set(realServerKey(server), { ...present, ...change });
  }

  /** Changes some counters that the kernel reports for an existing virtual server. */
  setStats(id: VirtualServerId, change: Partial<VirtualServerStats>): void {
    const present = this.tables.virtualServers.get(virtualServerKey(id));
    if (present === undefined) throw new Error('no such virtual server in the fake kernel');
    present.stats = { ...present.stats, ...change };
  }

  /** Changes some counters that the kernel reports for an existing real server. */
  setRealServerStats(id: VirtualServerId, server: RealServer, change: Partial<VirtualServerStats>): void {
    const virtualServer = this.tables.virtualServers.get(virtualServerKey(id));
    const key = realServerKey(server);
    if (virtualServer?.realServers.has(key) !== true) throw new Error('no such real server in the fake kernel');
    const present = virtualServer.realServerStats.get(key) ?? NO_STATS;
    virtualServer.realServerStats.set(key, { ...present, ...change });
  }

  setNodeAddresses(addresses: readonly NodeAddress[]): void {
    this.#nodeAddresses = addresses;
    for (const { onChange } of this.#watchers) onChange();
  }

  setUdpFlows(flows: readonly Flow[]): void {
    this.#flows = flows;
  }

  /** Removes all rules, as if another program had flushed the tables. */
  flushRules(family: IpFamily): void {
    this.#rules.delete(family);
  }

  /** Deletes kube-ipvs0, as another program would. */
  deleteDevice(): void {
    this.#dropDevice();
    for (const { onStateLost } of this.#watchers) onStateLost('kube-ipvs0 was deleted');
  }

  rules(family: IpFamily): RuleSet | undefined {
    return this.#rules.get(family);
  }

  // Methods for the daemon.

  async prepare(): Promise<void> {
    await this.#enter('prepare');
    this.#makeDevice();
  }

  async ensureDevice(): Promise<{ readonly made: boolean }> {
    await this.#enter('ensureDevice');
    return { made: this.#makeDevice() };
  }

  #makeDevice(): boolean {
    if (this.tables.device) return false;
    this.#counters.writes++;
    this.tables.device = true;
    return true;
  }

  async getVirtualServers(): Promise<VirtualServer[]> {
    await this.#enter('getVirtualServers');
    return [...this.tables.virtualServers.values()].map(({ virtualServer }) => virtualServer);
  }

  async getVirtualServerStats(ids?: readonly VirtualServerId[]): Promise<Map<VirtualServerKey, VirtualServerStats>> {
    await this.#enter('getVirtualServerStats');
    const wanted = ids === undefined ? undefined : new Set(ids.map(virtualServerKey));
    const found = [...this.tables.virtualServers].filter(([key]) => wanted?.has(key) !== false);
    return new Map(found.map(([key, { stats }]) => [key, stats]));
  }

  async getTrafficTotals(): Promise<VirtualServerStats | undefined> {
    await this.#enter('getTrafficTotals');
    const total = { ...NO_STATS };
    for (const { stats } of this.tables.virtualServers.values()) {
      total.connections += stats.connections;
      total.incomingPackets += stats.incomingPackets;
      total.outgoingPackets += stats.outgoingPackets;
      total.incomingBytes += stats.incomingBytes;
      total.outgoingBytes += stats.outgoingBytes;
    }
    return total;
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

  async confirmRealServers(lists: readonly ServerList[]): Promise<Set<VirtualServerKey>> {
    await this.#enter('confirmRealServers');
    const isConfirmed = ({ virtualServer, realServers }: ServerList): boolean => {
      const present = this.tables.virtualServers.get(virtualServerKey(virtualServer));
      return (
        present?.realServers.size === realServers.length &&
        realServers.every((wanted) => {
          const found = present.realServers.get(realServerKey(wanted));
          return found !== undefined && hasSameServerSettings(found, wanted);
        })
      );
    };
    return new Set(lists.filter(isConfirmed).map(({ virtualServer }) => virtualServerKey(virtualServer)));
  }

  async getRealServerStats(ids: readonly VirtualServerId[]): Promise<Map<VirtualServerKey, RealServerStats[]>> {
    await this.#enter('getRealServerStats');
    const found = new Map<VirtualServerKey, RealServerStats[]>();
    for (const key of ids.map(virtualServerKey)) {
      const present = this.tables.virtualServers.get(key);
      if (present === undefined || present.realServers.size === 0) continue;
      const servers = Array.from(present.realServers, ([server, observed]) => {
        const { address, port, activeConnections, inactiveConnections } = observed;
        const traffic = present.realServerStats.get(server) ?? NO_STATS;
        return { address, port, activeConnections, inactiveConnections, ...traffic };
      });
      found.set(key, servers);
    }
    return found;
  }

  async getSets(names?: readonly string[]): Promise<ObservedIpSet[]> {
    await this.#enter('getSets');
    const isWanted = (name: string): boolean => names?.includes(name) ?? /^KUBE[-~]/.test(name);
    const ours = [...this.tables.sets.values()].filter(({ set }) => isWanted(set.name));
    return ours.map(({ set, entries }) => ({ ...set, entries: [...entries.values()] }));
  }

  async findSets(names: readonly string[]): Promise<Map<string, IpSet>> {
    await this.#enter('findSets');
    const found = names.flatMap((name) => this.tables.sets.get(name)?.set ?? []);
    return new Map(found.map((set) => [set.name, set]));
  }

  async getBoundAddresses(): Promise<BoundAddress[]> {
    await this.#enter('getBoundAddresses');
    const { bound, otherFlags, unrouted } = this.tables;
    const listed = [...bound].filter((address) => !isLinkLocal6(address));
    return listed.map((address) => ({
      address,
      prefix: hostPrefix(address),
      conforms: !otherFlags.has(address),
      ...(unrouted.has(address) ? { unrouted: true } : {}),
    }));
  }

  async getLocalRoutes(): Promise<LocalRoute[]> {
    await this.#enter('getLocalRoutes');
    return [...this.tables.routes.values()];
  }

  async findRoutes(destinations: readonly IpAddress[]): Promise<Map<IpAddress, Route>> {
    await this.#enter('findRoutes');
    const { bound, routes: localRoutes } = this.tables;
    const networks = [...localRoutes.values()];
    const routes = new Map<IpAddress, Route>();
    for (const destination of destinations) {
      const own = this.#nodeAddresses.some(({ address }) => address === destination);
      const network = networks.find(({ cidr }) => cidrContains(cidr, destination));
      const local = own || bound.has(destination) || network !== undefined;
      const link = this.#nodeAddresses.find(({ address, prefix }) =>
        cidrContains(cidrOf(address, prefix), destination),
      );
      const common = { local, gateway: false };
      const source = own || bound.has(destination) ? destination : (network?.source ?? destination);
      if (local) routes.set(destination, { ...common, interfaceName: 'lo', source });
      else if (link !== undefined) {
        routes.set(destination, { ...common, interfaceName: link.interfaceName, source: link.address });
      }
    }
    return routes;
  }

  async findUnforwarded(): Promise<string[]> {
    await this.#enter('findUnforwarded');
    return [...this.unforwarded];
  }

  async getNodeAddresses(): Promise<NodeAddress[]> {
    await this.#enter('getNodeAddresses');
    return [...this.#nodeAddresses];
  }

  async apply(tx: Transaction): Promise<Outcome> {
    await this.#enter('apply');
    const failures: OpFailure[] = [];
    for (const op of tx) {
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
    return { failures };
  }

  async probeRules(): Promise<string> {
    await this.#enter('probeRules');
    return 'nft';
  }

  async ensureRules(rules: RuleSet): Promise<RulesWritten> {
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

  async findRuleVariant(): Promise<string> {
    await this.#enter('findRuleVariant');
    return 'nft';
  }

  readonly forgetReadings = (): Promise<void> => Promise.resolve();

  async preview(rules: readonly RuleSet[], parts: readonly (readonly Op[])[]): Promise<Preview> {
    const missing = await Promise.all(rules.map((each) => this.compareRules(each)));
    return { rules: missing.flatMap((each) => each.missing), parts: parts.map(toolCommands) };
  }

  async compareRules(rules: RuleSet): Promise<RulesInForce> {
    await this.#enter('compareRules');
    const same = hasSameRules(this.#rules.get(rules.family), rules);
    const program = rules.family === 4 ? 'iptables' : 'ip6tables';
    const { chains } = rules;
    if (!same) {
      return {
        missing: chains.map(({ table, name }) => ({ command: `${program} -t ${table} -N ${name}` })),
        packets: new Map(),
      };
    }
    return { missing: [], packets: new Map(chains.map((chain) => [ruleChainKey(chain), chain.rules.map(() => 0)])) };
  }

  listTables(): Promise<readonly string[]> {
    return Promise.resolve([]);
  }

  async getOtherRules(): Promise<OtherRules> {
    await this.#enter('getOtherRules');
    return this.otherRules;
  }

  #writeRules(rules: RuleSet): RulesWritten {
    const changed = !hasSameRules(this.#rules.get(rules.family), rules);
    if (changed) {
      const missing = matchedSets(rules).find((name) => !this.tables.sets.has(name));
      if (missing !== undefined && MODES[this.mode].hasIpsets) {
        throw new KernelError('ensureRules', 'ENOENT', `Set ${missing} doesn't exist: create it before its rules`);
      }
      this.#counters.writes++;
      this.#rules.set(rules.family, structuredClone(rules));
    }
    const chains = changed ? rules.chains.map(ruleChainKey) : [];
    return { changed, chains };
  }

  async removeRules(rules: RuleSet): Promise<void> {
    await this.#enter('removeRules');
    if (this.#rules.delete(rules.family)) this.#counters.writes++;
  }

  async getUdpFlows(family: IpFamily): Promise<Flow[]> {
    await this.#enter('getUdpFlows');
    return this.#flows.filter((flow) => flow.family === family && flow.protocol === 'UDP');
  }

  async getFlowSources(family: IpFamily, among: readonly Cidr[]): Promise<Set<IpAddress>> {
    await this.#enter('getFlowSources');
    const ofFamily = this.#flows.filter((flow) => flow.family === family);
    return new Set(ofFamily.map(({ source }) => source).filter(containedIn(among)));
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

  readonly getGeneration: Kernel['getGeneration'] = () => Promise.resolve(undefined);
  readonly hasOnlyOwnChangesSince: Kernel['hasOnlyOwnChangesSince'] = () => Promise.resolve(false);

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
    if (/^net\/netfilter\/nf_conntrack_\w*timeout/.test(key)) checkTimeouts('setSysctl', [Number(value)]);
    this.sysctls.set(key, value);
    this.#counters.writes++;
    return { changed: true, before };
  }

  async setIpvsTimeouts({ tcp, tcpFin, udp }: IpvsTimeouts): Promise<void> {
    await this.#enter('setIpvsTimeouts');
    checkTimeouts('setIpvsTimeouts', [tcp, tcpFin, udp]);
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

  watchNode(onChange: () => void, onStateLost: (reason: string) => void): () => void {
    const watcher = { onChange, onStateLost };
    this.#watchers.add(watcher);
    return () => void this.#watchers.delete(watcher);
  }

  async removeDevice(): Promise<void> {
    await this.#enter('removeDevice');
    if (this.tables.device) this.#counters.writes++;
    this.#dropDevice();
  }

  #dropDevice(): void {
    this.tables.device = false;
    this.tables.bound.clear();
    this.tables.otherFlags.clear();
    this.tables.unrouted.clear();
  }

  async close(): Promise<void> {
    this.#watchers.clear();
    await Promise.resolve();
  }

  // Never settles synchronously: code that relied on that would fail with the real kernel.
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

/** Whether iptables would have the same chains and jumps. */
function hasSameRules(a: RuleSet | undefined, b: RuleSet): boolean {
  return a !== undefined && JSON.stringify([a.chains, a.jumps]) === JSON.stringify([b.chains, b.jumps]);
}
