import { IP_FAMILIES, type IpFamily } from '../../base/ip.ts';
import { NETLINK_NETFILTER } from '../../netlink/protocol.ts';
import type { IpSet } from '../../state/ip-set.ts';
import { nftFamily, nftTable } from '../../state/nft-table.ts';
import type { Op } from '../../state/op.ts';
import type { Outcome } from '../../state/outcome.ts';
import type { ObservedRealServer } from '../../state/real-server.ts';
import type { RuleSet } from '../../state/rule-set.ts';
import type { RulesInForce, RulesWritten } from '../../state/rules-in-force.ts';
import type { RuleSettings } from '../../state/rule-settings.ts';
import { Transaction } from '../../state/transaction.ts';
import {
  VS_PERSISTENT,
  type VirtualServer,
  type VirtualServerId,
  type VirtualServerKey,
  virtualServerKey,
} from '../../state/virtual-server.ts';
import { NodeKernel, type NodeKernelOptions, once } from '../linux/node-kernel.ts';
import { refusalsOf, withKernelError } from '../linux/netlink-failure.ts';
import { KernelError } from '../kernel-error.ts';
import type { Kernel, KernelReader, ObservedIpSet } from '../kernel.ts';
import { readingHalf } from '../kernel-reader.ts';
import { baseChains } from './base-chains.ts';
import { NftLink } from './nft-link.ts';
import type { NftMessage } from './nft-message.ts';
import type { NftPort, NftRefusal } from './nft-port.ts';
import { NftTables, byFamily, skeleton } from './nft-tables.ts';
import { isWithoutTables } from './proxy-tables.ts';
import { replacingPort } from './replacing-port.ts';
import { checkRules } from './rule-check.ts';
import { RANDOM } from '../service-ops.ts';
import { ENDPOINTS, ROLE_SETS, constantSets } from './sets.ts';
import { type ObservedService, type Services, findServices, readEntries, readServices } from './table-reader.ts';
import { TableWatch } from './table-watch.ts';

/** A transaction with everything is one datagram: 50,000 Services with 10 endpoints each take 100 MiB. */
const SEND_BUFFER = 512 * 1024 * 1024;
const ATTEMPTS = 5;

/** Returns the Kernel that programs nf_tables. It opens sockets only when they are first needed, and runs no program. */
export function createNftablesKernel(options: NodeKernelOptions): Kernel {
  return new NftablesKernel(new NodeKernel(options));
}

/** Returns the reading half. */
export function createNftablesKernelReader(options: NodeKernelOptions): KernelReader {
  return readingHalf(new NftablesKernel(new NodeKernel(options)));
}

/** As createNftablesKernel, with other tables than the kernel's: for tests. */
export function nftablesKernelOf(node: NodeKernel, port: NftPort): Kernel {
  return new NftablesKernel(node, port);
}

class NftablesKernel implements Kernel {
  readonly mode = 'nftables';
  readonly #node: NodeKernel;
  readonly #port: () => NftPort;
  /** What is to be written to the table of a family as soon as that replaces the table of another program. */
  readonly #pending = new Map<IpFamily, Transaction>();

  constructor(node: NodeKernel, port?: NftPort) {
    this.#node = node;
    this.#port =
      port === undefined
        ? once(() => new NftLink(node.open(NETLINK_NETFILTER, SEND_BUFFER), node.countWrites))
        : () => port;
  }

  get counters(): Kernel['counters'] {
    return this.#node.counters;
  }

  readonly findRoutes: Kernel['findRoutes'] = (to) => this.#node.findRoutes(to);
  readonly getNodeAddresses: Kernel['getNodeAddresses'] = () => this.#node.getNodeAddresses();
  readonly getUdpFlows: Kernel['getUdpFlows'] = (family) => this.#node.getUdpFlows(family);
  readonly deleteFlows: Kernel['deleteFlows'] = (flows) => this.#node.deleteFlows(flows);
  readonly getSysctl: Kernel['getSysctl'] = (key) => this.#node.getSysctl(key);
  readonly setSysctl: Kernel['setSysctl'] = (key, value) => this.#node.setSysctl(key, value);

  async prepare(): Promise<void> {
    await this.ensureDevice();
  }

  /** Creates the tables if they are missing. */
  async ensureDevice(): Promise<{ readonly made: boolean }> {
    return await withKernelError('ensureDevice', async () => {
      let made = false;
      for (const family of await this.#families()) {
        const state = await this.#tableState(family);
        if (state === 'foreign' && !this.#pending.has(family)) this.#pending.set(family, new Transaction());
        if (state !== 'missing') continue;
        made = true;
        this.#pending.delete(family);
        this.#require('create', family, await this.#port().commit(family, skeleton(family)));
      }
      return { made };
    });
  }

  async removeDevice(): Promise<void> {
    await withKernelError('removeDevice', async () => {
      for (const family of await this.#families()) {
        if (!(await this.#port().hasTable(family))) continue;
        this.#require('delete', family, await this.#port().commit(family, [{ kind: 'delete-table' }]));
      }
    });
  }

  async apply(tx: Transaction): Promise<Outcome> {
    const now = new Transaction();
    for (const op of tx) {
      const pending = this.#pending.get(familyOfOp(op));
      (pending ?? now).push(op);
    }
    try {
      return { failures: await new NftTables(this.#port()).apply(now) };
    } catch (error) {
      return { failures: refusalsOf([...now], error).map(({ item, ...rest }) => ({ op: item, ...rest })) };
    }
  }

  async getVirtualServers(): Promise<VirtualServer[]> {
    return await withKernelError('getVirtualServers', async () => {
      const found: VirtualServer[] = [];
      for (const family of this.#readable()) {
        for (const service of (await readServices(this.#port(), family)).values()) found.push(virtualServerOf(service));
      }
      return found;
    });
  }

  async findVirtualServers(ids: readonly VirtualServerId[]): Promise<Map<VirtualServerKey, VirtualServer>> {
    const services = await this.#find('findVirtualServers', ids);
    return new Map(services.map((service) => [virtualServerKey(service.id), virtualServerOf(service)]));
  }

  /** Connections are those of connection tracking, which are not counted: an unwanted endpoint is removed at once. */
  async getRealServers(ids: readonly VirtualServerId[]): Promise<Map<VirtualServerKey, ObservedRealServer[]>> {
    const services = await this.#find('getRealServers', ids);
    return new Map(
      services.map(({ id, state }) => [
        virtualServerKey(id),
        state.endpoints.map((endpoint) => ({ ...endpoint, weight: 1, forwarding: 0, ...NO_CONNECTIONS })),
      ]),
    );
  }

  async getSets(names?: readonly string[]): Promise<ObservedIpSet[]> {
    return await withKernelError('getSets', async () => {
      const found: ObservedIpSet[] = [];
      for (const family of this.#readable()) {
        const present = new Set((await this.#port().sets(family)).map(({ name }) => name));
        for (const [name, set] of ROLE_SETS[family]) {
          if (!present.has(set.definition.name) || names?.includes(name) === false) continue;
          found.push({ ...set.ipSet, entries: await readEntries(this.#port(), family, set) });
        }
      }
      return found;
    });
  }

  async findSets(names: readonly string[]): Promise<Map<string, IpSet>> {
    const sets = await this.getSets(names);
    return new Map(sets.map(({ entries: _entries, ...set }) => [set.name, set]));
  }

  readonly getBoundAddresses: Kernel['getBoundAddresses'] = () => Promise.resolve([]);
  readonly getLocalRoutes: Kernel['getLocalRoutes'] = () => Promise.resolve([]);
  readonly getVirtualServerStats: Kernel['getVirtualServerStats'] = () =>
    Promise.resolve(new Map<VirtualServerKey, never>());
  readonly getRealServerStats: Kernel['getRealServerStats'] = () => Promise.resolve(new Map<VirtualServerKey, never>());
  readonly getTrafficTotals: Kernel['getTrafficTotals'] = () => Promise.resolve(undefined);
  readonly getIpvsTimeouts: Kernel['getIpvsTimeouts'] = () => Promise.resolve({ tcp: 0, tcpFin: 0, udp: 0 });
  readonly setIpvsTimeouts: Kernel['setIpvsTimeouts'] = () => Promise.resolve();

  probeScheduler(scheduler: string): Promise<void> {
    if (scheduler === RANDOM) return Promise.resolve();
    const message = 'nftables mode chooses endpoints at random';
    return Promise.reject(new KernelError('probeScheduler', 'EOPNOTSUPP', message));
  }

  async findRuleVariant(family: IpFamily): Promise<string> {
    try {
      await this.#port().hasTable(family);
      return 'none';
    } catch (error) {
      if (!isWithoutTables(error))
        return await withKernelError('findRuleVariant', () => Promise.reject(error as Error));
      const name = nftFamily(family);
      const message = `this kernel has no nf_tables for ${name}: load the module nf_tables, or use --proxy-mode=ipvs`;
      throw new KernelError('findRuleVariant', 'UNSUPPORTED', message, { cause: error });
    }
  }

  readonly probeRules: Kernel['probeRules'] = (family) => this.findRuleVariant(family);

  async ensureRules({ family, settings }: RuleSet): Promise<RulesWritten> {
    return await withKernelError('ensureRules', async () => {
      if (settings === undefined) return UNCHANGED;
      const pending = this.#pending.get(family);
      if (pending !== undefined) return await this.#replaceTable(family, settings, pending);
      for (let attempt = 1; ; attempt++) {
        const generation = attempt < ATTEMPTS ? await this.#port().generation() : undefined;
        if (!(await this.#port().hasTable(family))) await this.ensureDevice();
        const { messages, chains } = await checkRules(this.#port(), settings, family);
        if (messages.length === 0) return UNCHANGED;
        const refusal = await this.#port().commit(family, messages, generation);
        if (refusal === undefined) return { changed: true, chains };
        if (attempt === ATTEMPTS || refusal.code !== 'ERESTART') this.#require('write rules of', family, refusal);
      }
    });
  }

  /** Returns false, and writes nothing, while the table belongs to another program. */
  async addRules(rules: RuleSet): Promise<boolean> {
    if (this.#pending.has(rules.family)) return false;
    await this.ensureRules(rules);
    return true;
  }

  async compareRules({ family, settings }: RuleSet): Promise<RulesInForce> {
    return await withKernelError('compareRules', async () => {
      if (settings === undefined) return { missing: [], packets: new Map() };
      const { messages } = await checkRules(this.#port(), settings, family);
      return { missing: messages.map((message) => ({ command: describe(message, family) })), packets: new Map() };
    });
  }

  /** The rules are removed with the table. */
  readonly removeRules: Kernel['removeRules'] = () => Promise.resolve();

  watchNode(onChange: () => void, onStateLost: (reason: string) => void): () => void {
    // kube-ipvs0 may still exist after a change of mode, and disappear then.
    const stopAddresses = this.#node.watchAddresses(onChange, () => undefined);
    const { netns, log, trace } = this.#node;
    const hasTable = (family: IpFamily): Promise<boolean> => this.#port().hasTable(family);
    const tables = new TableWatch({ netns, log, trace, hasTable, onTableLost: onStateLost });
    tables.start();
    return () => {
      stopAddresses();
      tables.stop();
    };
  }

  async close(): Promise<void> {
    this.#node.close();
    await Promise.resolve();
  }

  /** The families that this kernel has: a kernel without IPv6 has no tables of it. */
  async #families(): Promise<readonly IpFamily[]> {
    const hasIpv6 = (await this.#node.getSysctl('net/ipv6/conf/all/forwarding')) !== undefined;
    return hasIpv6 ? IP_FAMILIES : [4];
  }

  /** The families whose table is not that of another program. */
  #readable(): readonly IpFamily[] {
    return IP_FAMILIES.filter((family) => !this.#pending.has(family));
  }

  async #find(operation: string, ids: readonly VirtualServerId[]): Promise<readonly ObservedService[]> {
    return await withKernelError(operation, async () => {
      const found: ObservedService[] = [];
      for (const [family, ofFamily] of byFamily(ids)) {
        if (this.#pending.has(family)) continue;
        const services: Services = await findServices(this.#port(), family, ofFamily);
        for (const id of ofFamily) {
          const service = services.get(virtualServerKey(id));
          if (service !== undefined) found.push(service);
        }
      }
      return found;
    });
  }

  /** A table is ours if it has the set of endpoints, and its sets have our types. */
  async #tableState(family: IpFamily): Promise<'missing' | 'ours' | 'foreign'> {
    if (!(await this.#port().hasTable(family))) return 'missing';
    const sets = new Map((await this.#port().sets(family)).map((set) => [set.name, set]));
    const same = constantSets(family).every(({ name, keyType, flags, dataType }) => {
      const found = sets.get(name);
      return found === undefined || (found.keyType === keyType && found.flags === flags && found.dataType === dataType);
    });
    return sets.has(ENDPOINTS) && same ? 'ours' : 'foreign';
  }

  async #replaceTable(family: IpFamily, settings: RuleSettings, pending: Transaction): Promise<RulesWritten> {
    const chains = baseChains(settings, family);
    const port = replacingPort(this.#port(), chains);
    const failures = await new NftTables(port).apply(pending);
    const [first] = failures;
    if ((await this.#tableState(family)) !== 'ours') {
      const reason = first === undefined ? 'nothing was written' : `${first.code} ${first.text}`;
      throw new KernelError(
        'ensureRules',
        first?.code ?? 'FAILED',
        `cannot replace table ${nftTable(family)}: ${reason}`,
      );
    }
    this.#pending.delete(family);
    return { changed: true, chains: chains.map(({ name }) => name) };
  }

  #require(verb: string, family: IpFamily, refusal: NftRefusal | undefined): void {
    if (refusal === undefined) return;
    const { code, text } = refusal;
    const hint =
      code === 'EOPNOTSUPP' ? ': this kernel has no nf_tables, or is older than 5.13; ipvs mode would work' : '';
    const reason = `${code}${text === '' ? '' : `: ${text}`}${hint}`;
    throw new KernelError('nf_tables', code, `cannot ${verb} table ${nftTable(family)}: ${reason}`);
  }
}

const UNCHANGED: RulesWritten = { changed: false, chains: [] };

const NO_CONNECTIONS = { activeConnections: 0, inactiveConnections: 0, persistentConnections: 0 };

function virtualServerOf({ id, state: { affinity } }: ObservedService): VirtualServer {
  const { address, port, protocol } = id;
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

function familyOfOp(op: Op): IpFamily {
  if ('set' in op) return op.set.family;
  if ('cidr' in op) return typeof op.cidr.address === 'number' ? 4 : 6;
  const { address } = 'virtualServer' in op ? op.virtualServer : 'id' in op ? op.id : op;
  return typeof address === 'number' ? 4 : 6;
}

/** Returns a change as an nft command, without its details. */
function describe(message: NftMessage, family: IpFamily): string {
  const table = nftTable(family);
  switch (message.kind) {
    case 'new-table':
      return `nft add table ${table}`;
    case 'delete-table':
      return `nft delete table ${table}`;
    case 'new-set':
      return `nft add set ${table} ${message.set.name}`;
    case 'delete-set':
      return `nft delete set ${table} ${message.name}`;
    case 'new-chain':
      return `nft add chain ${table} ${message.chain.name}`;
    case 'delete-chain':
      return `nft delete chain ${table} ${message.name}`;
    case 'flush-chain':
      return `nft flush chain ${table} ${message.name}`;
    case 'new-rule':
      return `nft add rule ${table} ${message.chain} (${message.expressions.map(({ name }) => name).join(' ')})`;
    case 'new-elements':
      return `nft add element ${table} ${message.set} (${message.elements.length})`;
    case 'delete-elements':
      return `nft delete element ${table} ${message.set} (${message.elements.length})`;
  }
}
