import type { SocketConnection } from '../../netlink/connection.ts';
import { openConnection } from '../../netlink/connection.ts';
import type { Trace } from '../../netlink/trace/trace.ts';
import { NetlinkError } from '../../netlink/error.ts';
import { NETLINK_GENERIC, NETLINK_NETFILTER, NETLINK_ROUTE } from '../../netlink/protocol.ts';
import type { IpFamily } from '../../base/ip.ts';
import type { Log } from '../../observe/log.ts';
import type { BoundAddress } from '../../state/bound-address.ts';
import type { IpSet } from '../../state/ip-set.ts';
import type { LocalRoute } from '../../state/local-route.ts';
import type { Op, OpKind } from '../../state/op.ts';
import type { OpFailure, Outcome } from '../../state/outcome.ts';
import type { ObservedRealServer } from '../../state/real-server.ts';
import type { RuleSet } from '../../state/rule-set.ts';
import type { Transaction } from '../../state/transaction.ts';
import type { VirtualServer, VirtualServerId, VirtualServerKey } from '../../state/virtual-server.ts';
import { type CommandRunner, createCommandRunner } from '../command-runner.ts';
import { ConntrackHandle } from './conntrack-handle.ts';
import { type AddressOp, DEVICE, DeviceHandle } from './device-handle.ts';
import { IpsetHandle, type SetOp } from './ipset-handle.ts';
import { NO_IPTABLES_FACTS, processIptablesFacts } from '../iptables/iptables-facts.ts';
import { Iptables } from '../iptables/iptables.ts';
import { ipvsFamily } from './ipvs-family.ts';
import { type IpvsOp, IpvsHandle } from './ipvs-handle.ts';
import { KernelError } from '../kernel-error.ts';
import type { Flow, IpvsTimeouts, Kernel, KernelCounters, NodeAddress, ObservedIpSet } from '../kernel.ts';
import { loadModules } from './modules.ts';
import { refusalsOf, withKernelError } from './netlink-failure.ts';
import { NodeAddressWatch } from './node-address-watch.ts';
import { runs } from './slices.ts';
import { Sysctl, commandSysctlFiles, processSysctlFiles } from './sysctl.ts';
import type { RealServerStats, VirtualServerStats } from '../../state/server-stats.ts';

export interface LinuxKernelOptions {
  readonly log: Log;
  /** Path of a network namespace to work in ("/run/netns/blue"), for tests; default: that of the process. */
  readonly netns?: string;
  /** Called when a program is started. */
  readonly onProgram?: (program: string) => void;
  /** Called when iptables-restore (ip6tables-restore) failed. */
  readonly onRestoreFailure?: (family: IpFamily) => void;
}

/** Verbosity from which every netlink message is logged. */
const TRACE_LEVEL = 9;

/** Returns the Kernel for this machine. It opens sockets and runs programs only when they are first needed. */
export function createLinuxKernel(options: LinuxKernelOptions): Kernel {
  return new LinuxKernel(options);
}

/** The socket for each kind of operation. */
const SOCKETS = {
  'create-set': 'ipset',
  'grow-set': 'ipset',
  'destroy-set': 'ipset',
  'add-entry': 'ipset',
  'delete-entry': 'ipset',
  'add-virtual-server': 'ipvs',
  'edit-virtual-server': 'ipvs',
  'delete-virtual-server': 'ipvs',
  'add-real-server': 'ipvs',
  'edit-real-server': 'ipvs',
  'delete-real-server': 'ipvs',
  'bind-address': 'address',
  'unbind-address': 'address',
  'add-route': 'address',
  'delete-route': 'address',
} as const satisfies Record<SetOp['kind'], 'ipset'> &
  Record<IpvsOp['kind'], 'ipvs'> &
  Record<AddressOp['kind'], 'address'> &
  Record<OpKind, string>;

class LinuxKernel implements Kernel {
  readonly #log: Log;
  readonly #netns: string | undefined;
  readonly #trace: Trace;
  readonly #runner: CommandRunner;
  readonly #iptables: Iptables;
  readonly #sysctl: Sysctl;
  readonly #connections: SocketConnection[] = [];
  /** Active watches, with their callbacks for lost state. */
  readonly #watches = new Map<NodeAddressWatch, (reason: string) => void>();
  #ipvs: Promise<IpvsHandle> | undefined;
  #ipset: IpsetHandle | undefined;
  #device: DeviceHandle | undefined;
  #conntrack: ConntrackHandle | undefined;
  #writes = 0;
  #processes = 0;
  #closed = false;

  constructor({ log, netns, onProgram, onRestoreFailure }: LinuxKernelOptions) {
    this.#log = log;
    this.#netns = netns;
    const onStart = (program: string): void => {
      this.#processes++;
      onProgram?.(program);
    };
    this.#runner = createCommandRunner({ netns, onStart });
    this.#trace = { enabled: () => log.enabled(TRACE_LEVEL), line: (text) => log.debug(TRACE_LEVEL, text) };
    const facts = netns === undefined ? processIptablesFacts(this.#trace) : NO_IPTABLES_FACTS;
    this.#iptables = new Iptables(this.#runner, log, () => this.#writes++, onRestoreFailure, facts);
    this.#sysctl = new Sysctl(netns === undefined ? processSysctlFiles : commandSysctlFiles(this.#runner));
  }

  get counters(): Readonly<KernelCounters> {
    const sum = {
      netlinkMessages: 0,
      netlinkSends: 0,
      netlinkBytesSent: 0,
      netlinkBytesReceived: 0,
      netlinkSystemCalls: 0,
    };
    for (const { counters } of this.#connections) {
      sum.netlinkMessages += counters.messages;
      sum.netlinkSends += counters.sends;
      sum.netlinkBytesSent += counters.bytesSent;
      sum.netlinkBytesReceived += counters.bytesReceived;
      sum.netlinkSystemCalls += counters.systemCalls;
    }
    return { writes: this.#writes, ...sum, processesStarted: this.#processes };
  }

  async prepare(): Promise<void> {
    await withKernelError('prepare', async () => {
      const ipvs = await this.#ipvsHandle();
      // The first request that needs privileges: missing ones are reported before anything is changed.
      await ipvs.getTimeouts();
      await this.#ipsetHandle().prepare();
      // Last, because a failed start would leave it behind.
      await this.#deviceHandle().ensure();
    });
  }

  async ensureDevice(): Promise<{ readonly made: boolean }> {
    return await withKernelError('ensureDevice', async () => this.#deviceHandle().ensure());
  }

  async getVirtualServers(): Promise<VirtualServer[]> {
    return await this.#withIpvs('getVirtualServers', (ipvs) => ipvs.getVirtualServers());
  }

  async getVirtualServerStats(): Promise<Map<VirtualServerKey, VirtualServerStats>> {
    return await this.#withIpvs('getVirtualServerStats', (ipvs) => ipvs.getStats());
  }

  async findVirtualServers(ids: readonly VirtualServerId[]): Promise<Map<VirtualServerKey, VirtualServer>> {
    return await this.#withIpvs('findVirtualServers', (ipvs) => ipvs.findVirtualServers(ids));
  }

  async getRealServers(ids: readonly VirtualServerId[]): Promise<Map<VirtualServerKey, ObservedRealServer[]>> {
    return await this.#withIpvs('getRealServers', (ipvs) => ipvs.getRealServers(ids));
  }

  async getRealServerStats(ids: readonly VirtualServerId[]): Promise<Map<VirtualServerKey, RealServerStats[]>> {
    return await this.#withIpvs('getRealServerStats', (ipvs) => ipvs.getRealServerStats(ids));
  }

  async getSets(): Promise<ObservedIpSet[]> {
    return await withKernelError('getSets', async () => this.#ipsetHandle().getSets());
  }

  async findSets(names: readonly string[]): Promise<Map<string, IpSet>> {
    return await withKernelError('findSets', async () => this.#ipsetHandle().findSets(names));
  }

  async getBoundAddresses(): Promise<BoundAddress[]> {
    return await withKernelError('getBoundAddresses', async () => this.#deviceHandle().getBoundAddresses());
  }

  async getLocalRoutes(): Promise<LocalRoute[]> {
    return await withKernelError('getLocalRoutes', async () => this.#deviceHandle().getLocalRoutes());
  }

  async getNodeAddresses(): Promise<NodeAddress[]> {
    return await withKernelError('getNodeAddresses', async () => this.#deviceHandle().getNodeAddresses());
  }

  async apply({ ops }: Transaction): Promise<Outcome> {
    const failures: OpFailure[] = [];
    for (const run of runs(ops, ({ kind }) => SOCKETS[kind])) {
      try {
        // Not by spreading: there may be a hundred thousand failures.
        for (const failure of await this.#applyRun(run)) failures.push(failure);
      } catch (error) {
        // The whole run failed in transport. Errors of other kinds are bugs and are rethrown.
        for (const { item, ...rest } of refusalsOf(run, error)) failures.push({ op: item, ...rest });
      }
    }
    return { attempted: ops.length, failures };
  }

  async probeRules(family: IpFamily): Promise<string> {
    return await this.#iptables.probe(family);
  }

  async ensureRules(rules: RuleSet): Promise<{ readonly changed: boolean }> {
    return await this.#iptables.ensure(rules);
  }

  async addRules(rules: RuleSet): Promise<boolean> {
    return await this.#iptables.add(rules);
  }

  async removeRules(rules: RuleSet): Promise<void> {
    await this.#iptables.remove(rules);
  }

  async getUdpFlows(family: IpFamily): Promise<Flow[]> {
    return await withKernelError('getUdpFlows', async () => this.#conntrackHandle().getUdpFlows(family));
  }

  async deleteFlows(flows: readonly Flow[]): Promise<number> {
    return await withKernelError('deleteFlows', async () => this.#conntrackHandle().deleteFlows(flows));
  }

  async getSysctl(key: string): Promise<string | undefined> {
    return await this.#sysctl.get(key);
  }

  async setSysctl(key: string, value: string): Promise<{ readonly changed: boolean; readonly before: string }> {
    const result = await this.#sysctl.set(key, value);
    if (result.changed) this.#writes++;
    return result;
  }

  async setIpvsTimeouts(timeouts: IpvsTimeouts): Promise<void> {
    await this.#withIpvs('setIpvsTimeouts', (ipvs) => ipvs.setTimeouts(timeouts));
  }

  async getIpvsTimeouts(): Promise<IpvsTimeouts> {
    return await this.#withIpvs('getIpvsTimeouts', (ipvs) => ipvs.getTimeouts());
  }

  async probeScheduler(scheduler: string): Promise<void> {
    await this.#withIpvs('probeScheduler', (ipvs) => ipvs.probeScheduler(scheduler));
  }

  watchNode(onChange: () => void, onStateLost: (reason: string) => void): () => void {
    const findDevice = async (): Promise<number | undefined> => this.#deviceHandle().index();
    const watch = new NodeAddressWatch({
      netns: this.#netns,
      device: DEVICE,
      findDevice,
      log: this.#log,
      trace: this.#trace,
      onChange,
      onDeviceLost: onStateLost,
    });
    this.#watches.set(watch, onStateLost);
    watch.start();
    return () => {
      this.#watches.delete(watch);
      watch.stop();
    };
  }

  async removeDevice(): Promise<void> {
    await withKernelError('removeDevice', async () => this.#deviceHandle().remove());
  }

  async close(): Promise<void> {
    this.#closed = true;
    for (const watch of this.#watches.keys()) watch.stop();
    this.#watches.clear();
    for (const connection of this.#connections) connection.close();
    await Promise.resolve();
  }

  /** Applies operations of one socket; SOCKETS guarantees their types. */
  async #applyRun(ops: readonly Op[]): Promise<OpFailure[]> {
    const [first] = ops;
    if (first === undefined) return [];
    switch (SOCKETS[first.kind]) {
      case 'ipset':
        return await this.#ipsetHandle().apply(ops as readonly SetOp[]);
      case 'ipvs':
        return await this.#applyIpvs(ops as readonly IpvsOp[]);
      case 'address':
        return await this.#deviceHandle().apply(ops as readonly AddressOp[]);
    }
  }

  readonly #countWrites = (messages: number): void => {
    this.#writes += messages;
  };

  async #ipvsHandle(): Promise<IpvsHandle> {
    if (this.#ipvs === undefined) {
      this.#ipvs = this.#openIpvs();
      // Retried at the next call: the module may be loaded by then.
      this.#ipvs.catch(() => {
        this.#ipvs = undefined;
      });
    }
    return await this.#ipvs;
  }

  async #openIpvs(): Promise<IpvsHandle> {
    await loadModules({ runner: this.#runner });
    const connection = this.#open(NETLINK_GENERIC);
    try {
      const family = await ipvsFamily(connection);
      return new IpvsHandle(connection, this.#open(NETLINK_GENERIC), family, this.#countWrites);
    } catch (error) {
      this.#connections.splice(this.#connections.indexOf(connection), 1);
      connection.close();
      throw error;
    }
  }

  /** ENOENT may mean that ip_vs was unloaded: loads it and calls `run` again. */
  async #withIpvs<T>(operation: string, run: (ipvs: IpvsHandle) => Promise<T>): Promise<T> {
    return await withKernelError(operation, async () => {
      const ipvs = await this.#ipvsHandle();
      const { familyId } = ipvs;
      try {
        return await run(ipvs);
      } catch (error) {
        if (!isEnoent(error) || !(await this.#reloadIpvs(ipvs, familyId))) throw error;
        return await run(ipvs);
      }
    });
  }

  async #applyIpvs(ops: readonly IpvsOp[]): Promise<OpFailure[]> {
    const ipvs = await this.#ipvsHandle();
    const { familyId } = ipvs;
    const failures = await ipvs.apply(ops);
    if (!failures.some(({ code }) => code === 'ENOENT')) return failures;
    return (await this.#reloadIpvs(ipvs, familyId)) ? await ipvs.apply(ops) : failures;
  }

  /**
   * Loads ip_vs if it is missing. Returns whether the generic netlink family ID of IPVS now differs from `used`: the
   * module was unloaded and loaded again.
   */
  async #reloadIpvs(ipvs: IpvsHandle, used: number): Promise<boolean> {
    await loadModules({ runner: this.#runner });
    const before = ipvs.familyId;
    const now = await ipvsFamily(ipvs.connection);
    if (now !== before) {
      ipvs.familyId = now;
      for (const onStateLost of this.#watches.values()) onStateLost('the kernel module ip_vs was unloaded');
    }
    return now !== used;
  }

  // Separate sockets: a dump of connection tracking takes long, and sets must not wait for it.
  #ipsetHandle(): IpsetHandle {
    this.#ipset ??= new IpsetHandle(this.#open(NETLINK_NETFILTER), this.#countWrites);
    return this.#ipset;
  }

  #conntrackHandle(): ConntrackHandle {
    this.#conntrack ??= new ConntrackHandle(this.#open(NETLINK_NETFILTER), this.#countWrites);
    return this.#conntrack;
  }

  #deviceHandle(): DeviceHandle {
    this.#device ??= new DeviceHandle(this.#open(NETLINK_ROUTE), this.#countWrites);
    return this.#device;
  }

  #open(protocol: number): SocketConnection {
    if (this.#closed) throw new KernelError('open', 'CLOSED', 'the kernel was closed');
    const netns = this.#netns;
    const connection = openConnection({ protocol, trace: this.#trace, ...(netns === undefined ? {} : { netns }) });
    this.#connections.push(connection);
    return connection;
  }
}

function isEnoent(error: unknown): boolean {
  return (error instanceof NetlinkError || error instanceof KernelError) && error.code === 'ENOENT';
}
