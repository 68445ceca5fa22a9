import { IP_FAMILIES, type IpFamily, familyOf } from '../../base/ip.ts';
import { familyOfOp } from '../../state/op.ts';
import { type Outcome, failureOf } from '../../state/outcome.ts';
import type { Endpoint, ObservedRealServer } from '../../state/real-server.ts';
import type { RuleSet } from '../../state/rules/rule-set.ts';
import { type RulesInForce, type RulesWritten, UNCHANGED_RULES } from '../../state/rules/rules-in-force.ts';
import type { Transaction } from '../../state/transaction.ts';
import {
  type VirtualServer,
  type VirtualServerId,
  type VirtualServerKey,
  virtualServerKey,
} from '../../state/virtual-server.ts';
import { isPermanent } from '../iptables/iptables-failure.ts';
import { iptablesOf } from '../iptables/iptables-handle.ts';
import { otherRulesReader } from '../iptables/chain-policies.ts';
import { parseSave } from '../iptables/iptables-save.ts';
import { scriptLines } from '../iptables/iptables-script.ts';
import { lineCommand } from '../iptables/rule-differences.ts';
import { KernelError, asRefusal } from '../kernel-error.ts';
import type { Kernel, KernelReader, ObservedIpSet } from '../kernel.ts';
import { readOnlyKernel } from '../kernel-reader.ts';
import { NodeKernel, type NodeKernelOptions } from '../linux/node-kernel.ts';
import { TranslatingKernel, realServerOf, virtualServerOf } from '../linux/translating-kernel.ts';
import { type ModeObserver, NO_MODE_OBSERVER } from '../mode-observer.ts';
import { requireExtensions } from './extensions.ts';
import { FamilyTables } from './family-tables.ts';
import type { IptablesPort } from './iptables-port.ts';
import { OwnTransactions } from '../own-transactions.ts';
import { previewOf } from './preview.ts';
import { type Server, isUnnamed } from './proxy-state.ts';
import { NODE_SETS } from './node-sets.ts';

export interface IptablesKernelOptions extends NodeKernelOptions {
  /** How old a reading of the tables may be for a full check; for tests. */
  readonly maxAgeMs?: number;
}

/** Returns the Kernel that programs chains of iptables. It runs programs only when they are first needed. */
export function createIptablesKernel(options: IptablesKernelOptions): Kernel {
  const node = new NodeKernel(options);
  return new IptablesKernel(node, iptablesOf(node, options), options.maxAgeMs, options.modeObserver);
}

/** Returns a kernel that only reads. */
export function createIptablesKernelReader(options: IptablesKernelOptions): KernelReader {
  const node = new NodeKernel(options);
  return readOnlyKernel(new IptablesKernel(node, iptablesOf(node, options), options.maxAgeMs));
}

/** As createIptablesKernel, with other programs: for tests. */
export function iptablesKernelOf(
  node: NodeKernel,
  port: IptablesPort,
  maxAgeMs?: number,
  observer?: ModeObserver,
): Kernel {
  return new IptablesKernel(node, port, maxAgeMs, observer);
}

class IptablesKernel extends TranslatingKernel implements Kernel {
  readonly mode = 'iptables';
  readonly #port: IptablesPort;
  readonly #tables: Readonly<Record<IpFamily, FamilyTables>>;
  /** Families whose rules cannot be read or written on this node. */
  readonly #unusable = new Set<IpFamily>();
  /** Families to be probed again in full checks: something was missing, or the last probe failed for a moment. */
  readonly #toProbe = new Set<IpFamily>();

  constructor(node: NodeKernel, port: IptablesPort, maxAgeMs?: number, observer = NO_MODE_OBSERVER) {
    super(node);
    this.#port = port;
    const options = { port, own: new OwnTransactions(), log: node.log, observer, maxAgeMs };
    this.#tables = { 4: new FamilyTables(4, options), 6: new FamilyTables(6, options) };
  }

  /** The chains are created with the rules. */
  readonly prepare: Kernel['prepare'] = () => Promise.resolve();
  readonly ensureDevice: Kernel['ensureDevice'] = () => Promise.resolve({ made: false });
  readonly removeDevice: Kernel['removeDevice'] = () => Promise.resolve();

  readonly getGeneration: Kernel['getGeneration'] = () => this.#port.generation();

  // Generation and own changes are those of both families.
  readonly hasOnlyOwnChangesSince: Kernel['hasOnlyOwnChangesSince'] = (generation) =>
    this.#tables[4].hasOnlyOwnChangesSince(generation);

  async apply(tx: Transaction): Promise<Outcome> {
    const outcomes: Outcome[] = [];
    for (const family of IP_FAMILIES) outcomes.push(await this.#applyTo(family, tx));
    const stopped = outcomes.find((outcome) => outcome.stopped !== undefined)?.stopped;
    return { failures: outcomes.flatMap(({ failures }) => failures), ...(stopped !== undefined && { stopped }) };
  }

  async #applyTo(family: IpFamily, tx: Transaction): Promise<Outcome> {
    try {
      return await this.#tables[family].apply(tx);
    } catch (error) {
      // The tables could not be read.
      if (!(error instanceof KernelError)) throw error;
      const refusal = asRefusal(error);
      const ops = Array.from(tx).filter((op) => familyOfOp(op) === family);
      return { failures: ops.map((op) => failureOf(op, refusal)), stopped: refusal.text };
    }
  }

  async getVirtualServers(without?: ReadonlySet<IpFamily>): Promise<VirtualServer[]> {
    const found: VirtualServer[] = [];
    for (const family of await this.#usable(without)) {
      for (const server of (await this.#tables[family].state()).servers()) found.push(namedServerOf(server));
    }
    return found;
  }

  async findVirtualServers(ids: readonly VirtualServerId[]): Promise<Map<VirtualServerKey, VirtualServer>> {
    const servers = await this.#find(ids);
    return new Map(servers.map((server) => [virtualServerKey(server.id), namedServerOf(server)]));
  }

  async getRealServers(ids: readonly VirtualServerId[]): Promise<Map<VirtualServerKey, ObservedRealServer[]>> {
    const servers = await this.#find(ids);
    const lists = new Map<readonly Endpoint[], ObservedRealServer[]>();
    for (const { state } of servers) {
      if (!lists.has(state.endpoints)) lists.set(state.endpoints, state.endpoints.map(realServerOf));
    }
    return new Map(servers.map(({ id, state }) => [virtualServerKey(id), lists.get(state.endpoints) ?? []]));
  }

  /** Without names, it begins a full check: the tables are read anew. */
  async getSets(names?: readonly string[], without?: ReadonlySet<IpFamily>): Promise<ObservedIpSet[]> {
    const found: ObservedIpSet[] = [];
    for (const family of await this.#usable(without)) {
      if (names?.some((name) => NODE_SETS[family].has(name)) === false) continue;
      const tables = this.#tables[family];
      if (names === undefined && this.#toProbe.has(family)) await this.#probeAgain(family);
      const state = await tables.state(names === undefined);
      for (const [name, set] of NODE_SETS[family]) {
        if (names?.includes(name) !== false) found.push({ ...set, entries: [...state.entriesOf(name)] });
      }
    }
    return found;
  }

  readonly findRuleVariant: Kernel['findRuleVariant'] = (family) => this.#port.find(family);

  async probeRules(family: IpFamily): Promise<string> {
    try {
      const variant = await this.#port.probe(family);
      await this.#probeExtensions(family);
      return variant;
    } catch (error) {
      if (isPermanent(error)) this.#unusable.add(family);
      else this.#toProbe.add(family);
      throw error;
    }
  }

  async ensureRules({ family, settings }: RuleSet): Promise<RulesWritten> {
    return settings === undefined ? UNCHANGED_RULES : await this.#tables[family].ensure(settings);
  }

  async addRules({ family, settings }: RuleSet): Promise<boolean> {
    return settings === undefined || (await this.#tables[family].add(settings));
  }

  async compareRules({ family, settings }: RuleSet): Promise<RulesInForce> {
    if (settings === undefined) return { missing: [], packets: new Map() };
    const lines = scriptLines(await this.#tables[family].difference(settings));
    const found = lines.length === 0 ? new Map<string, never>() : parseSave(await this.#port.read(family));
    return { missing: lines.map((line) => ({ command: lineCommand(family, line, found) })), packets: new Map() };
  }

  override async forgetReadings(before: number): Promise<void> {
    for (const family of IP_FAMILIES) await this.#tables[family].forgetBefore(before);
  }

  readonly getOtherRules = otherRulesReader(this.node);

  readonly preview: Kernel['preview'] = (rules, parts) => previewOf(this.#port, rules, parts);

  watchNode(onChange: () => void): () => void {
    // kube-ipvs0 may still exist after a change of mode, and disappear then.
    return this.node.watchAddresses(onChange, () => undefined);
  }

  async #probeExtensions(family: IpFamily): Promise<void> {
    const tables = this.#tables[family];
    const lacks = await requireExtensions(this.#port, family);
    const known = new Set(tables.lacks.map(({ text }) => text));
    for (const { text, services } of lacks) {
      if (!known.has(text)) this.node.log.warn(`${text}. Until then, ${services} do not work`);
    }
    tables.lacks = lacks;
    if (lacks.length > 0) this.#toProbe.add(family);
    else this.#toProbe.delete(family);
  }

  /** Probes again, because a module may have been loaded since. A failed probe changes nothing. */
  async #probeAgain(family: IpFamily): Promise<void> {
    try {
      await this.#probeExtensions(family);
    } catch (error) {
      if (!(error instanceof KernelError)) throw error;
    }
  }

  async #usable(without: ReadonlySet<IpFamily> = new Set()): Promise<readonly IpFamily[]> {
    return (await this.families()).filter((family) => !this.#unusable.has(family) && !without.has(family));
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

function namedServerOf({ id, name, traits, state: { affinity } }: Server): VirtualServer {
  return {
    ...virtualServerOf(id, affinity),
    ...(isUnnamed(name) ? {} : { servicePort: name }),
    ...(traits === undefined ? {} : { traits }),
  };
}
