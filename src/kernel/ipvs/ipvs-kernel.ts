import { NetlinkError } from '../../netlink/error.ts';
import { NETLINK_GENERIC, NETLINK_NETFILTER } from '../../netlink/netlink-protocol.ts';
import { errorText } from '../../base/text/error-text.ts';
import type { IpFamily } from '../../base/ip.ts';
import type { Op, ServerOp } from '../../state/op.ts';
import type { OpFailure, Outcome } from '../../state/outcome.ts';
import { toolCommands } from '../../state/commands/write-preview.ts';
import type { RuleDifference, RuleSet } from '../../state/rules/rule-set.ts';
import type { RulesInForce } from '../../state/rules/rules-in-force.ts';
import type { Transaction } from '../../state/transaction.ts';
import type { VirtualServerId } from '../../state/virtual-server.ts';
import type { AddressOp, DeviceHandle } from '../linux/device-handle.ts';
import { IpsetHandle, type SetOp } from './ipset-handle.ts';
import { type Iptables, iptablesOf } from '../iptables/iptables-handle.ts';
import { ipvsFamily } from '../linux/generic-family.ts';
import { IpvsHandle } from './ipvs-handle.ts';
import { KernelError } from '../kernel-error.ts';
import { ListConfirmation } from './list-confirmation.ts';
import type { IpvsTimeouts, Kernel, KernelReader } from '../kernel.ts';
import { readOnlyKernel } from '../kernel-reader.ts';
import { loadModules, requireIpvs } from '../linux/modules.ts';
import { refusalsOf, withKernelError } from '../linux/netlink-failure.ts';
import { KernelOfNode } from '../linux/kernel-of-node.ts';
import { NodeKernel, type NodeKernelOptions, once, kernelMethod } from '../linux/node-kernel.ts';
import { COUNTERS, type VirtualServerStats, eachCounter } from '../../state/server-stats.ts';
import type { SysctlFiles } from '../linux/sysctl.ts';

type Ids = readonly VirtualServerId[];

/** Returns the Kernel for this machine. It opens sockets and runs programs only when they are first needed. */
export function createIpvsKernel(options: NodeKernelOptions): Kernel {
  return new IpvsKernel(options);
}

/** Returns this machine's kernel, which only reads. Unlike createIpvsKernel(), it does not load ip_vs. */
export function createIpvsKernelReader(options: NodeKernelOptions): KernelReader {
  return readOnlyKernel(new IpvsKernel(options, requireIpvs));
}

class IpvsKernel extends KernelOfNode implements Kernel {
  readonly mode = 'ipvs';
  readonly #loadModules: () => Promise<void>;
  readonly #iptables: Iptables;
  #ipvs: Promise<IpvsHandle> | undefined;
  // Separate sockets: a dump of connection tracking takes long, and sets must not wait for it.
  readonly #sets = once(() => new IpsetHandle(this.node.open(NETLINK_NETFILTER), this.node.countWrites));
  readonly #lists: ListConfirmation;
  readonly #device = (): DeviceHandle => this.node.device();

  constructor(options: NodeKernelOptions, load?: () => Promise<void>) {
    const node = new NodeKernel(options);
    super(node);
    this.#lists = new ListConfirmation(node.netns);
    this.#loadModules = load ?? (() => loadModules({ runner: node.runner }));
    this.#iptables = iptablesOf(node, options);
  }

  async prepare(): Promise<void> {
    await withKernelError('prepare', async () => {
      const ipvs = await this.#ipvsHandle();
      // The first request that needs privileges. If they are missing, nothing has been changed yet.
      await ipvs.getTimeouts();
      await this.#sets().prepare();
      // Create the device last, because a failed start would leave it behind.
      await this.#device().ensureDevice();
    });
  }

  readonly ensureDevice = kernelMethod(this.#device, 'ensureDevice');
  readonly removeDevice = kernelMethod(this.#device, 'removeDevice');
  readonly getBoundAddresses = kernelMethod(this.#device, 'getBoundAddresses');
  readonly getLocalRoutes = kernelMethod(this.#device, 'getLocalRoutes');

  readonly getVirtualServers = this.#onIpvs('getVirtualServers', async (ipvs) => {
    const listed = await ipvs.getVirtualServers();
    this.#lists.note(listed);
    return listed;
  });
  readonly getVirtualServerStats = this.#onIpvs('getVirtualServerStats', (ipvs, ids?: Ids) => ipvs.getStats(ids));
  readonly findVirtualServers = this.#onIpvs('findVirtualServers', (ipvs, ids: Ids) => ipvs.findVirtualServers(ids));
  readonly getRealServers = this.#onIpvs('getRealServers', (ipvs, ids: Ids) => ipvs.getRealServers(ids));
  readonly confirmRealServers: Kernel['confirmRealServers'] = (lists) => Promise.resolve(this.#lists.confirm(lists));
  readonly getRealServerStats = this.#onIpvs('getRealServerStats', (ipvs, ids: Ids) => ipvs.getRealServerStats(ids));
  readonly getIpvsTimeouts = this.#onIpvs('getIpvsTimeouts', (ipvs) => ipvs.getTimeouts());
  readonly setIpvsTimeouts = this.#onIpvs('setIpvsTimeouts', (ipvs, timeouts: IpvsTimeouts) =>
    ipvs.setTimeouts(timeouts),
  );
  readonly probeScheduler = this.#onIpvs('probeScheduler', (ipvs, name: string) => ipvs.probeScheduler(name));

  readonly #getMarks = this.#onIpvs('getMarks', (ipvs, family: IpFamily) => ipvs.getMarks(family));

  readonly getSets = kernelMethod(this.#sets, 'getSets');
  readonly findSets = kernelMethod(this.#sets, 'findSets');

  // IPVS and ipset do not count their changes.
  readonly getGeneration: Kernel['getGeneration'] = () => Promise.resolve(undefined);
  readonly hasOnlyOwnChangesSince: Kernel['hasOnlyOwnChangesSince'] = () => Promise.resolve(false);

  async apply(tx: Transaction): Promise<Outcome> {
    const failures: OpFailure[] = [];
    let stopped: string | undefined;
    const run = async <T extends Op>(ops: readonly T[], apply: (ops: readonly T[]) => Promise<OpFailure[]>) => {
      if (ops.length === 0) return;
      try {
        // Do not spread into push(): there may be a hundred thousand failures.
        for (const failure of await apply(ops)) failures.push(failure);
      } catch (error) {
        // After a netlink error of the whole batch, every operation in `ops` counts as failed. refusalsOf rethrows any
        // other error.
        for (const { item, ...rest } of refusalsOf(ops, error)) failures.push({ op: item, ...rest });
        stopped ??= errorText(error);
      }
    };
    const onSets = async (ops: readonly SetOp[]): Promise<OpFailure[]> => this.#sets().apply(ops);
    const onServers = async (ops: readonly ServerOp[]): Promise<OpFailure[]> => this.#applyIpvs(ops);
    const onDevice = async (ops: readonly AddressOp[]): Promise<OpFailure[]> => this.#device().apply(ops);
    await run(tx.stage('add-sets'), onSets);
    await run(tx.stage('add-servers'), onServers);
    await run(tx.stage('addresses'), onDevice);
    await run(tx.stage('delete-servers'), onServers);
    await run(tx.stage('delete-sets'), onSets);
    return { failures, ...(stopped !== undefined && { stopped }) };
  }

  readonly probeRules = (family: IpFamily): Promise<string> => this.#iptables.probe(family);
  readonly findRuleVariant = (family: IpFamily): Promise<string> => this.#iptables.find(family);
  readonly ensureRules = (rules: RuleSet) => this.#iptables.ensure(rules);
  readonly addRules = (rules: RuleSet): Promise<boolean> => this.#iptables.add(rules);
  readonly compareRules = (rules: RuleSet): Promise<RulesInForce> => this.#iptables.compare(rules);
  readonly preview: Kernel['preview'] = async (rules, parts) => {
    const missing: RuleDifference[] = [];
    for (const each of rules) missing.push(...(await this.compareRules(each)).missing);
    return { rules: missing, parts: parts.map(toolCommands) };
  };
  readonly getOtherRules: Kernel['getOtherRules'] = async (family) => {
    // Only questions about packets need them.
    const { readOtherRules } = await import('../iptables/chain-policies.ts');
    const rules = await readOtherRules(this.#iptables, family, this.node);
    return { ...rules, marks: await this.#getMarks(family) };
  };
  readonly removeRules = (rules: RuleSet): Promise<void> => this.#iptables.remove(rules);

  readonly getTrafficTotals = () => withKernelError('getTrafficTotals', () => readTrafficTotals(this.node.files));
  readonly watchNode: Kernel['watchNode'] = (onChange, onStateLost) => this.node.watchAddresses(onChange, onStateLost);

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
    const connection = this.node.open(NETLINK_GENERIC);
    try {
      const family = await ipvsFamily(connection);
      return new IpvsHandle(connection, this.node.open(NETLINK_GENERIC), family, this.node.countWrites);
    } catch (error) {
      this.node.discard(connection);
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

  async #applyIpvs(ops: readonly ServerOp[]): Promise<OpFailure[]> {
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
      this.node.stateLost('the kernel module ip_vs was unloaded');
    }
    return now !== used;
  }
}

function isEnoent(error: unknown): boolean {
  return (error instanceof NetlinkError || error instanceof KernelError) && error.code === 'ENOENT';
}

/** ip_vs_ctl.c: ip_vs_stats_show(). The totals of the network namespace, of all virtual servers since ip_vs was loaded. */
const PATH = '/proc/net/ip_vs_stats';

/** Returns undefined if ip_vs is not loaded. */
export async function readTrafficTotals(files: Pick<SysctlFiles, 'read'>): Promise<VirtualServerStats | undefined> {
  const text = await files.read(PATH);
  return text === undefined ? undefined : parseTrafficTotals(text);
}

/** The totals: the first line after the header, in hexadecimal. Undefined for any other text. */
function parseTrafficTotals(text: string): VirtualServerStats | undefined {
  const line = text.split('\n').find((each) => /^\s*[0-9A-F]+(\s+[0-9A-F]+){4}\s*$/.test(each));
  if (line === undefined) return undefined;
  const numbers = line.trim().split(/\s+/);
  return eachCounter((counter) => Number.parseInt(numbers[COUNTERS.indexOf(counter)] ?? '', 16));
}
