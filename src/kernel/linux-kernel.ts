import type { SocketConnection } from '../netlink/connection.ts';
import { openConnection } from '../netlink/connection.ts';
import { FamilyMissingError, resolveFamily } from '../netlink/family/genl-ctrl/family.ts';
import { NETLINK_GENERIC, NETLINK_NETFILTER, NETLINK_ROUTE } from '../netlink/protocol.ts';
import { IPVS_FAMILY_NAME } from '../netlink/family/ipvs/command.ts';
import type { IpAddress, IpFamily } from '../net/ip.ts';
import type { Log } from '../observe/log.ts';
import type { LocalRoute } from '../state/local-route.ts';
import type { Op, OpKind } from '../state/op.ts';
import type { OpFailure, Outcome } from '../state/outcome.ts';
import type { ObservedRealServer } from '../state/real-server.ts';
import type { RuleSet } from '../state/rule-set.ts';
import type { Transaction } from '../state/transaction.ts';
import type { VirtualServer, VirtualServerId, VirtualServerKey } from '../state/virtual-server.ts';
import { type CommandRunner, createCommandRunner } from './command-runner.ts';
import { ConntrackHandle } from './conntrack-handle.ts';
import { type AddressOp, DEVICE, DeviceHandle } from './device-handle.ts';
import { IpsetHandle, type SetOp } from './ipset-handle.ts';
import { NO_IPTABLES_FACTS, processIptablesFacts } from './iptables-facts.ts';
import { Iptables } from './iptables.ts';
import { type IpvsOp, IpvsHandle } from './ipvs-handle.ts';
import { KernelError } from './kernel-error.ts';
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
import { loadModules } from './modules.ts';
import { refusalsOf, withKernelError } from './netlink-failure.ts';
import { NodeAddressWatch } from './node-address-watch.ts';
import { runs } from './slices.ts';
import { Sysctl, commandSysctlFiles, processSysctlFiles } from './sysctl.ts';

export interface LinuxKernelOptions {
  readonly log: Log;
  /** Path of a network namespace to work in ("/run/netns/blue"), for tests; default: that of the process. */
  readonly netns?: string;
  /** A program is started. */
  readonly onProgram?: (program: string) => void;
  /** iptables-restore (ip6tables-restore) refused what it was given. */
  readonly onRestoreFailure?: (family: IpFamily) => void;
}

/** The kernel of this machine. Opens nothing and starts nothing until it is first asked. */
export function createLinuxKernel(options: LinuxKernelOptions): Kernel {
  return new LinuxKernel(options);
}

/** Which socket does what. */
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
  readonly #runner: CommandRunner;
  readonly #iptables: Iptables;
  readonly #sysctl: Sysctl;
  readonly #connections: SocketConnection[] = [];
  readonly #watches = new Set<NodeAddressWatch>();
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
    const facts = netns === undefined ? processIptablesFacts : NO_IPTABLES_FACTS;
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
      // The first question that needs rights: what is wrong with them is said before anything is changed.
      await ipvs.getTimeouts();
      await this.#ipsetHandle().prepare();
      // Last, for it is what a failed start would leave behind.
      await this.#deviceHandle().prepare();
    });
  }

  async getVirtualServers(): Promise<VirtualServer[]> {
    return await withKernelError('getVirtualServers', async () => (await this.#ipvsHandle()).getVirtualServers());
  }

  async getVirtualServerStats(): Promise<Map<VirtualServerKey, VirtualServerStats>> {
    return await withKernelError('getVirtualServerStats', async () => (await this.#ipvsHandle()).getStats());
  }

  async findVirtualServers(ids: readonly VirtualServerId[]): Promise<Map<VirtualServerKey, VirtualServer>> {
    return await withKernelError('findVirtualServers', async () => (await this.#ipvsHandle()).findVirtualServers(ids));
  }

  async getRealServers(ids: readonly VirtualServerId[]): Promise<Map<VirtualServerKey, ObservedRealServer[]>> {
    return await withKernelError('getRealServers', async () => (await this.#ipvsHandle()).getRealServers(ids));
  }

  async getRealServerStats(ids: readonly VirtualServerId[]): Promise<Map<VirtualServerKey, RealServerStats[]>> {
    return await withKernelError('getRealServerStats', async () => (await this.#ipvsHandle()).getRealServerStats(ids));
  }

  async getSets(): Promise<ObservedIpSet[]> {
    return await withKernelError('getSets', async () => this.#ipsetHandle().getSets());
  }

  async getBoundAddresses(): Promise<IpAddress[]> {
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
        // Not by spreading: all of a hundred thousand may have failed.
        for (const failure of await this.#applyRun(run)) failures.push(failure);
      } catch (error) {
        // The whole run failed on its way to the kernel; what is not netlink's is a fault of ours, and thrown on.
        for (const { item, ...rest } of refusalsOf(run, error)) failures.push({ op: item, ...rest });
      }
    }
    return { attempted: ops.length, failures };
  }

  async probeRules(family: IpFamily): Promise<void> {
    await this.#iptables.probe(family);
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
    await withKernelError('setIpvsTimeouts', async () => (await this.#ipvsHandle()).setTimeouts(timeouts));
  }

  async getIpvsTimeouts(): Promise<IpvsTimeouts> {
    return await withKernelError('getIpvsTimeouts', async () => (await this.#ipvsHandle()).getTimeouts());
  }

  async probeScheduler(scheduler: string): Promise<void> {
    await withKernelError('probeScheduler', async () => (await this.#ipvsHandle()).probeScheduler(scheduler));
  }

  watchNodeAddresses(onChange: () => void): () => void {
    const findDevice = async (): Promise<number | undefined> => this.#deviceHandle().index();
    const watch = new NodeAddressWatch({ netns: this.#netns, device: DEVICE, findDevice, log: this.#log, onChange });
    this.#watches.add(watch);
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
    for (const watch of this.#watches) watch.stop();
    this.#watches.clear();
    for (const connection of this.#connections) connection.close();
    await Promise.resolve();
  }

  /** Operations for the same socket: SOCKETS makes sure that these are their types. */
  async #applyRun(ops: readonly Op[]): Promise<OpFailure[]> {
    const [first] = ops;
    if (first === undefined) return [];
    switch (SOCKETS[first.kind]) {
      case 'ipset':
        return await this.#ipsetHandle().apply(ops as readonly SetOp[]);
      case 'ipvs':
        return await (await this.#ipvsHandle()).apply(ops as readonly IpvsOp[]);
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
      // Tried again next time: the module may be loaded by then.
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
      const { id } = await resolveFamily(connection, IPVS_FAMILY_NAME);
      return new IpvsHandle(connection, this.#open(NETLINK_GENERIC), id, this.#countWrites);
    } catch (error) {
      this.#connections.splice(this.#connections.indexOf(connection), 1);
      connection.close();
      if (!(error instanceof FamilyMissingError)) throw error;
      const message = 'the kernel has no IPVS: run `modprobe ip_vs` on the node, or use a kernel with CONFIG_IP_VS';
      throw new KernelError('ipvs', 'MISSING_MODULE', message, { cause: error });
    }
  }

  // A socket each: a dump of connection tracking takes long, and sets must not wait for it.
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
    const connection = openConnection({ protocol, ...(netns === undefined ? {} : { netns }) });
    this.#connections.push(connection);
    return connection;
  }
}
