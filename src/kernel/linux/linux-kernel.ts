import { type SocketConnection, openConnection } from '../../netlink/connection.ts';
import type { Trace } from '../../netlink/trace/trace.ts';
import { NetlinkError } from '../../netlink/error.ts';
import { NETLINK_GENERIC, NETLINK_NETFILTER, NETLINK_ROUTE } from '../../netlink/protocol.ts';
import type { IpAddress, IpFamily } from '../../base/ip.ts';
import type { Log } from '../../observe/log.ts';
import type { Op } from '../../state/op.ts';
import type { OpFailure, Outcome } from '../../state/outcome.ts';
import type { RuleSet } from '../../state/rule-set.ts';
import type { RulesInForce } from '../../state/rules-in-force.ts';
import type { Transaction } from '../../state/transaction.ts';
import type { VirtualServerId } from '../../state/virtual-server.ts';
import { type CommandRunner, createCommandRunner } from '../command-runner.ts';
import { ConntrackHandle } from './conntrack-handle.ts';
import { type AddressOp, DEVICE, DeviceHandle } from './device-handle.ts';
import { IpsetHandle, type SetOp } from './ipset-handle.ts';
import { NO_IPTABLES_FACTS, processIptablesFacts } from '../iptables/iptables-facts.ts';
import { Iptables } from '../iptables/iptables.ts';
import { ipvsFamily } from './ipvs-family.ts';
import { type IpvsOp, IpvsHandle } from './ipvs-handle.ts';
import { KernelError } from '../kernel-error.ts';
import type { Flow, IpvsTimeouts, Kernel, KernelCounters, KernelReader } from '../kernel.ts';
import { readingHalf } from '../kernel-reader.ts';
import { loadModules, requireIpvs } from './modules.ts';
import { refusalsOf, withKernelError } from './netlink-failure.ts';
import { NodeAddressWatch } from './node-address-watch.ts';
import { Sysctl, type SysctlFiles, commandSysctlFiles, processSysctlFiles } from './sysctl.ts';
import { readTrafficTotals } from './traffic-totals.ts';

export interface LinuxKernelOptions {
  readonly log: Log;
  /** Path of a network namespace to work in ("/run/netns/blue"), for tests; default: that of the process. */
  readonly netns?: string;
  /** Called when a program is started. */
  readonly onProgram?: (program: string) => void;
  /** Called when iptables-restore (ip6tables-restore) failed. */
  readonly onRestoreFailure?: (family: IpFamily) => void;
}

type Ids = readonly VirtualServerId[];

/** Verbosity from which every netlink message is logged. */
const TRACE_LEVEL = 9;

/** Returns the Kernel for this machine. It opens sockets and runs programs only when they are first needed. */
export function createLinuxKernel(options: LinuxKernelOptions): Kernel {
  return new LinuxKernel(options);
}

/** Returns the reading half for this machine. Unlike the Kernel, it does not load ip_vs. */
export function createLinuxKernelReader(options: LinuxKernelOptions): KernelReader {
  return readingHalf(new LinuxKernel(options, requireIpvs));
}

class LinuxKernel implements Kernel {
  readonly #log: Log;
  readonly #netns: string | undefined;
  readonly #trace: Trace;
  readonly #runner: CommandRunner;
  readonly #loadModules: () => Promise<void>;
  readonly #iptables: Iptables;
  readonly #files: SysctlFiles;
  readonly #sysctl: Sysctl;
  readonly #connections: SocketConnection[] = [];
  /** Active watches. Each has a callback for the reason why events were missed or the kernel's state is gone. */
  readonly #watches = new Map<NodeAddressWatch, (reason: string) => void>();
  #ipvs: Promise<IpvsHandle> | undefined;
  // Separate sockets: a dump of connection tracking takes long, and sets must not wait for it.
  readonly #sets = once(() => new IpsetHandle(this.#open(NETLINK_NETFILTER), this.#countWrites));
  readonly #conntrack = once(() => new ConntrackHandle(this.#open(NETLINK_NETFILTER), this.#countWrites));
  readonly #device = once(() => new DeviceHandle(this.#open(NETLINK_ROUTE), this.#countWrites));
  #writes = 0;
  #processes = 0;
  #closed = false;

  constructor({ log, netns, onProgram, onRestoreFailure }: LinuxKernelOptions, load?: () => Promise<void>) {
    this.#log = log;
    this.#netns = netns;
    const onStart = (program: string): void => {
      this.#processes++;
      onProgram?.(program);
    };
    this.#runner = createCommandRunner({ netns, onStart });
    this.#loadModules = load ?? (() => loadModules({ runner: this.#runner }));
    this.#trace = { enabled: () => log.enabled(TRACE_LEVEL), line: (text) => log.debug(TRACE_LEVEL, text) };
    const facts = netns === undefined ? processIptablesFacts(this.#trace) : NO_IPTABLES_FACTS;
    this.#iptables = new Iptables(this.#runner, log, () => this.#writes++, onRestoreFailure, facts);
    this.#files = netns === undefined ? processSysctlFiles : commandSysctlFiles(this.#runner);
    this.#sysctl = new Sysctl(this.#files);
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
      // The first request that needs privileges. If they are missing, nothing has been changed yet.
      await ipvs.getTimeouts();
      await this.#sets().prepare();
      // Create the device last, because a failed start would leave it behind.
      await this.#device().ensure();
    });
  }

  readonly ensureDevice = wrapped(this.#device, 'ensureDevice', (device) => device.ensure());
  readonly removeDevice = wrapped(this.#device, 'removeDevice', (device) => device.remove());
  readonly getBoundAddresses = wrapped(this.#device, 'getBoundAddresses', (device) => device.getBoundAddresses());
  readonly getLocalRoutes = wrapped(this.#device, 'getLocalRoutes', (device) => device.getLocalRoutes());
  readonly findRoutes = wrapped(this.#device, 'findRoutes', (device, to: readonly IpAddress[]) =>
    device.findRoutes(to),
  );
  readonly getNodeAddresses = wrapped(this.#device, 'getNodeAddresses', (device) => device.getNodeAddresses());

  readonly getVirtualServers = this.#onIpvs('getVirtualServers', (ipvs) => ipvs.getVirtualServers());
  readonly getVirtualServerStats = this.#onIpvs('getVirtualServerStats', (ipvs, ids?: Ids) => ipvs.getStats(ids));
  readonly findVirtualServers = this.#onIpvs('findVirtualServers', (ipvs, ids: Ids) => ipvs.findVirtualServers(ids));
  readonly getRealServers = this.#onIpvs('getRealServers', (ipvs, ids: Ids) => ipvs.getRealServers(ids));
  readonly getRealServerStats = this.#onIpvs('getRealServerStats', (ipvs, ids: Ids) => ipvs.getRealServerStats(ids));
  readonly getIpvsTimeouts = this.#onIpvs('getIpvsTimeouts', (ipvs) => ipvs.getTimeouts());
  readonly setIpvsTimeouts = this.#onIpvs('setIpvsTimeouts', (ipvs, timeouts: IpvsTimeouts) =>
    ipvs.setTimeouts(timeouts),
  );
  readonly probeScheduler = this.#onIpvs('probeScheduler', (ipvs, name: string) => ipvs.probeScheduler(name));

  readonly getSets = wrapped(this.#sets, 'getSets', (sets, names?: readonly string[]) => sets.getSets(names));
  readonly findSets = wrapped(this.#sets, 'findSets', (sets, names: readonly string[]) => sets.findSets(names));

  readonly getUdpFlows = wrapped(this.#conntrack, 'getUdpFlows', (flows, family: IpFamily) =>
    flows.getUdpFlows(family),
  );
  readonly deleteFlows = wrapped(this.#conntrack, 'deleteFlows', (flows, gone: readonly Flow[]) =>
    flows.deleteFlows(gone),
  );

  async apply(tx: Transaction): Promise<Outcome> {
    const failures: OpFailure[] = [];
    const run = async <T extends Op>(ops: readonly T[], apply: (ops: readonly T[]) => Promise<OpFailure[]>) => {
      if (ops.length === 0) return;
      try {
        // Do not spread into push(): there may be a hundred thousand failures.
        for (const failure of await apply(ops)) failures.push(failure);
      } catch (error) {
        // After a netlink error of the whole batch, every operation in `ops` counts as failed. refusalsOf rethrows any
        // other error.
        for (const { item, ...rest } of refusalsOf(ops, error)) failures.push({ op: item, ...rest });
      }
    };
    const onSets = async (ops: readonly SetOp[]): Promise<OpFailure[]> => this.#sets().apply(ops);
    const onServers = async (ops: readonly IpvsOp[]): Promise<OpFailure[]> => this.#applyIpvs(ops);
    const onDevice = async (ops: readonly AddressOp[]): Promise<OpFailure[]> => this.#device().apply(ops);
    await run(tx.stage('add-sets'), onSets);
    await run(tx.stage('add-servers'), onServers);
    await run(tx.stage('addresses'), onDevice);
    await run(tx.stage('delete-servers'), onServers);
    await run(tx.stage('delete-sets'), onSets);
    return { failures };
  }

  readonly probeRules = (family: IpFamily): Promise<string> => this.#iptables.probe(family);
  readonly findRuleVariant = (family: IpFamily): Promise<string> => this.#iptables.find(family);
  readonly ensureRules = (rules: RuleSet) => this.#iptables.ensure(rules);
  readonly addRules = (rules: RuleSet): Promise<boolean> => this.#iptables.add(rules);
  readonly compareRules = (rules: RuleSet): Promise<RulesInForce> => this.#iptables.compare(rules);
  readonly removeRules = (rules: RuleSet): Promise<void> => this.#iptables.remove(rules);

  readonly getTrafficTotals = () => withKernelError('getTrafficTotals', () => readTrafficTotals(this.#files));
  readonly getSysctl = (key: string): Promise<string | undefined> => this.#sysctl.get(key);

  async setSysctl(key: string, value: string): Promise<{ readonly changed: boolean; readonly before: string }> {
    const result = await this.#sysctl.set(key, value);
    if (result.changed) this.#writes++;
    return result;
  }

  watchNode(onChange: () => void, onStateLost: (reason: string) => void): () => void {
    const findDevice = async (): Promise<number | undefined> => this.#device().index();
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

  async close(): Promise<void> {
    this.#closed = true;
    for (const watch of this.#watches.keys()) watch.stop();
    this.#watches.clear();
    for (const connection of this.#connections) connection.close();
    await Promise.resolve();
  }

  readonly #countWrites = (messages: number): void => {
    this.#writes += messages;
  };

  async #ipvsHandle(): Promise<IpvsHandle> {
    if (this.#ipvs === undefined) {
      this.#ipvs = this.#openIpvs();
      // The next call tries again, because the module may be loaded by then.
      this.#ipvs.catch(() => {
        this.#ipvs = undefined;
      });
    }
    return await this.#ipvs;
  }

  async #openIpvs(): Promise<IpvsHandle> {
    await this.#loadModules();
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

  /** Wraps an operation on IPVS. ENOENT may mean that ip_vs was unloaded: then loads it and calls `run` again. */
  #onIpvs<A extends unknown[], R>(operation: string, run: (ipvs: IpvsHandle, ...args: A) => Promise<R>) {
    return async (...args: A): Promise<R> =>
      await withKernelError(operation, async () => {
        const ipvs = await this.#ipvsHandle();
        const { familyId } = ipvs;
        try {
          return await run(ipvs, ...args);
        } catch (error) {
          if (!isEnoent(error) || !(await this.#reloadIpvs(ipvs, familyId))) throw error;
          return await run(ipvs, ...args);
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
    await this.#loadModules();
    const before = ipvs.familyId;
    const now = await ipvsFamily(ipvs.connection);
    if (now !== before) {
      ipvs.familyId = now;
      for (const onStateLost of this.#watches.values()) onStateLost('the kernel module ip_vs was unloaded');
    }
    return now !== used;
  }

  #open(protocol: number): SocketConnection {
    if (this.#closed)
      throw new KernelError('open', 'CLOSED', 'cannot open a netlink socket: this Kernel has been closed');
    const netns = this.#netns;
    const connection = openConnection({ protocol, trace: this.#trace, ...(netns === undefined ? {} : { netns }) });
    this.#connections.push(connection);
    return connection;
  }
}

function once<T>(make: () => T): () => T {
  let made: T | undefined;
  return () => (made ??= make());
}

/** Wraps an operation on a handle, so that netlink errors become a KernelError. */
function wrapped<H, A extends unknown[], R>(
  handle: () => H,
  operation: string,
  run: (handle: H, ...args: A) => Promise<R>,
): (...args: A) => Promise<R> {
  return async (...args) => await withKernelError(operation, async () => run(handle(), ...args));
}

function isEnoent(error: unknown): boolean {
  return (error instanceof NetlinkError || error instanceof KernelError) && error.code === 'ENOENT';
}
