import { IP_FAMILIES, type IpFamily, familyOf } from '../../base/ip.ts';
import type { IpSet } from '../../state/ip-set.ts';
import { familyOfOp } from '../../state/op.ts';
import type { OpFailure, Outcome } from '../../state/outcome.ts';
import type { ObservedRealServer } from '../../state/real-server.ts';
import type { RuleSet } from '../../state/rule-set.ts';
import type { RulesInForce, RulesWritten } from '../../state/rules-in-force.ts';
import type { Transaction } from '../../state/transaction.ts';
import {
  VS_PERSISTENT,
  type VirtualServer,
  type VirtualServerId,
  type VirtualServerKey,
  virtualServerKey,
} from '../../state/virtual-server.ts';
import { lasts } from '../iptables/iptables-failure.ts';
import { NO_IPTABLES_FACTS, processIptablesFacts } from '../iptables/iptables-facts.ts';
import { Iptables } from '../iptables/iptables.ts';
import { parseSave, scriptLines } from '../iptables/iptables-script.ts';
import { KernelError } from '../kernel-error.ts';
import type { Kernel, KernelReader, ObservedIpSet } from '../kernel.ts';
import { readingHalf } from '../kernel-reader.ts';
import type { LinuxKernelOptions } from '../linux/linux-kernel.ts';
import { NodeKernel } from '../linux/node-kernel.ts';
import { RANDOM } from '../service-ops.ts';
import { FamilyTables } from './family-tables.ts';
import type { IptablesPort } from './iptables-port.ts';
import { type Server, isUnnamed } from './proxy-state.ts';
import { SETS } from './roles.ts';

export interface IptablesKernelOptions extends LinuxKernelOptions {
  /** How old a reading of the tables may be for a full check; for tests. */
  readonly maxAgeMs?: number;
}

/** Returns the Kernel that programs chains of iptables. It runs programs only when they are first needed. */
export function createIptablesKernel(options: IptablesKernelOptions): Kernel {
  const node = new NodeKernel(options);
  return new IptablesKernel(node, portOf(node, options), options.maxAgeMs);
}

/** Returns the reading half. */
export function createIptablesKernelReader(options: IptablesKernelOptions): KernelReader {
  const node = new NodeKernel(options);
  return readingHalf(new IptablesKernel(node, portOf(node, options), options.maxAgeMs));
}

/** As createIptablesKernel, with other programs: for tests. */
export function iptablesKernelOf(node: NodeKernel, port: IptablesPort, maxAgeMs?: number): Kernel {
  return new IptablesKernel(node, port, maxAgeMs);
}

function portOf(node: NodeKernel, { log, netns, onRestoreFailure }: IptablesKernelOptions): IptablesPort {
  const facts = netns === undefined ? processIptablesFacts(node.trace) : NO_IPTABLES_FACTS;
  return new Iptables(node.runner, log, () => node.countWrites(1), onRestoreFailure, facts);
}

class IptablesKernel implements Kernel {
  readonly mode = 'iptables';
  readonly #node: NodeKernel;
  readonly #port: IptablesPort;
  readonly #tables: Readonly<Record<IpFamily, FamilyTables>>;
  /** Families whose rules cannot be read or written on this node. */
  readonly #unusable = new Set<IpFamily>();
  #hasIpv6: boolean | undefined;

  constructor(node: NodeKernel, port: IptablesPort, maxAgeMs?: number) {
    this.#node = node;
    this.#port = port;
    this.#tables = {
      4: new FamilyTables(4, port, node.log, maxAgeMs),
      6: new FamilyTables(6, port, node.log, maxAgeMs),
    };
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

  /** The chains are created with the rules. */
  readonly prepare: Kernel['prepare'] = () => Promise.resolve();
  readonly ensureDevice: Kernel['ensureDevice'] = () => Promise.resolve({ made: false });
  readonly removeDevice: Kernel['removeDevice'] = () => Promise.resolve();

  async apply(tx: Transaction): Promise<Outcome> {
    const failures: OpFailure[] = [];
    for (const family of IP_FAMILIES) failures.push(...(await this.#applyTo(family, tx)));
    return { failures };
  }

  async #applyTo(family: IpFamily, tx: Transaction): Promise<readonly OpFailure[]> {
    try {
      return await this.#tables[family].apply(tx);
    } catch (error) {
      // The tables could not be read.
      if (!(error instanceof KernelError)) throw error;
      const { code, message: text } = error;
      return Array.from(tx)
        .filter((op) => familyOfOp(op) === family)
        .map((op) => ({ op, errno: 0, code, text }));
    }
  }

  async getVirtualServers(): Promise<VirtualServer[]> {
    const found: VirtualServer[] = [];
    for (const family of await this.#families()) {
      for (const server of (await this.#tables[family].state()).servers()) found.push(virtualServerOf(server));
    }
    return found;
  }

  async findVirtualServers(ids: readonly VirtualServerId[]): Promise<Map<VirtualServerKey, VirtualServer>> {
    const servers = await this.#find(ids);
    return new Map(servers.map((server) => [virtualServerKey(server.id), virtualServerOf(server)]));
  }

  /** Connections are those of connection tracking, which are not counted: an unwanted endpoint is removed at once. */
  async getRealServers(ids: readonly VirtualServerId[]): Promise<Map<VirtualServerKey, ObservedRealServer[]>> {
    const servers = await this.#find(ids);
    return new Map(
      servers.map(({ id, state }) => [
        virtualServerKey(id),
        state.endpoints.map((endpoint) => ({ ...endpoint, weight: 1, forwarding: 0, ...NO_CONNECTIONS })),
      ]),
    );
  }

  /** Without names, it begins a full check: the tables are read anew. */
  async getSets(names?: readonly string[]): Promise<ObservedIpSet[]> {
    const found: ObservedIpSet[] = [];
    for (const family of await this.#families()) {
      const state = await this.#tables[family].state(names === undefined);
      for (const [name, set] of SETS[family]) {
        if (names?.includes(name) !== false) found.push({ ...set, entries: [...state.entriesOf(name)] });
      }
    }
    return found;
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
    const message = 'iptables mode chooses endpoints at random';
    return Promise.reject(new KernelError('probeScheduler', 'EOPNOTSUPP', message));
  }

  readonly findRuleVariant: Kernel['findRuleVariant'] = (family) => this.#port.find(family);

  async probeRules(family: IpFamily): Promise<string> {
    try {
      return await this.#port.probe(family);
    } catch (error) {
      if (lasts(error)) this.#unusable.add(family);
      throw error;
    }
  }

  async ensureRules({ family, settings }: RuleSet): Promise<RulesWritten> {
    return settings === undefined ? UNCHANGED : await this.#tables[family].ensure(settings);
  }

  async addRules({ family, settings }: RuleSet): Promise<boolean> {
    return settings === undefined || (await this.#tables[family].add(settings));
  }

  async compareRules({ family, settings }: RuleSet): Promise<RulesInForce> {
    if (settings === undefined) return { missing: [], packets: new Map() };
    const program = family === 4 ? 'iptables' : 'ip6tables';
    const lines = scriptLines(await this.#tables[family].difference(settings));
    const found = lines.length === 0 ? new Map<string, never>() : parseSave(await this.#port.read(family));
    const missing = lines.map(({ table, line }) => {
      const [, declared] = /^:(\S+)/.exec(line) ?? [];
      // iptables-restore creates a declared chain, or empties it.
      const verb = declared !== undefined && found.get(table)?.has(declared) === true ? '-F' : '-N';
      return { command: `${program} -t ${table} ${declared === undefined ? line : `${verb} ${declared}`}` };
    });
    return { missing, packets: new Map() };
  }

  /** For --cleanup the chains are leftovers of iptables mode, whichever program wrote them. */
  readonly removeRules: Kernel['removeRules'] = () => Promise.resolve();

  watchNode(onChange: () => void): () => void {
    // kube-ipvs0 may still exist after a change of mode, and disappear then.
    return this.#node.watchAddresses(onChange, () => undefined);
  }

  async close(): Promise<void> {
    this.#node.close();
    await Promise.resolve();
  }

  /** The families that this kernel has. */
  async #families(): Promise<readonly IpFamily[]> {
    this.#hasIpv6 ??= (await this.#node.getSysctl('net/ipv6/conf/all/forwarding')) !== undefined;
    return IP_FAMILIES.filter((family) => !this.#unusable.has(family) && (family === 4 || this.#hasIpv6));
  }

  async #find(ids: readonly VirtualServerId[]): Promise<readonly Server[]> {
    const found: Server[] = [];
    for (const [family, ofFamily] of Map.groupBy(ids, ({ address }) => familyOf(address))) {
      const state = await this.#tables[family].state();
      for (const id of ofFamily) {
        const server = state.server(id);
        if (server !== undefined) found.push(server);
      }
    }
    return found;
  }
}

const UNCHANGED: RulesWritten = { changed: false, chains: [] };

const NO_CONNECTIONS = { activeConnections: 0, inactiveConnections: 0, persistentConnections: 0 };

function virtualServerOf({ id, name, state: { affinity } }: Server): VirtualServer {
  return {
    ...id,
    scheduler: RANDOM,
    flags: affinity > 0 ? VS_PERSISTENT : 0,
    timeout: affinity,
    prefix: typeof id.address === 'number' ? 32 : 128,
    ...(isUnnamed(name) ? {} : { servicePort: name }),
  };
}
