import { isDeepStrictEqual } from 'node:util';
import { errorText } from '../../base/text/error-text.ts';
import { IP_FAMILIES, type IpFamily, familyOf } from '../../base/ip.ts';
import { Turns } from '../../base/turns.ts';
import { NETLINK_NETFILTER } from '../../netlink/netlink-protocol.ts';
import { TABLE, nftFamily, nftTable } from '../../state/nft-table.ts';
import { type Outcome, failureOf } from '../../state/outcome.ts';
import type { ObservedRealServer } from '../../state/real-server.ts';
import type { RuleSet } from '../../state/rules/rule-set.ts';
import { type RulesInForce, type RulesWritten, UNCHANGED_RULES } from '../../state/rules/rules-in-force.ts';
import type { RuleSettings } from '../../state/rules/rule-settings.ts';
import type { Transaction } from '../../state/transaction.ts';
import {
  type VirtualServer,
  type VirtualServerId,
  type VirtualServerKey,
  virtualServerKey,
} from '../../state/virtual-server.ts';
import { otherRulesReader } from '../iptables/chain-policies.ts';
import { OwnTransactions } from '../own-transactions.ts';
import { NodeKernel, type NodeKernelOptions, once } from '../linux/node-kernel.ts';
import { refusalsOf, withKernelError } from '../linux/netlink-failure.ts';
import { KernelError } from '../kernel-error.ts';
import type { Kernel, KernelReader, ObservedIpSet } from '../kernel.ts';
import { type ModeObserver, NO_MODE_OBSERVER } from '../mode-observer.ts';
import { readOnlyKernel } from '../kernel-reader.ts';
import { requireExpressions } from './expression-probe.ts';
import { contents } from './objects/base-chains.ts';
import { NftLink } from './port/nft-link.ts';
import { messageText } from './preview/message-text.ts';
import { previewOf } from './nft-preview.ts';
import type { NftMessage } from './port/nft-message.ts';
import { type NftPort, requireCommitted } from './port/nft-port.ts';
import { NftTables } from './nft-tables.ts';
import { isWithoutTables } from './proxy-tables.ts';
import { checkRules } from './rule-check.ts';
import { TranslatingKernel, realServerOf } from '../linux/translating-kernel.ts';
import { NODE_SETS } from './objects/sets.ts';
import { SurplusRemoval } from './surplus-removal.ts';
import { findServers, listServers } from './server-reader.ts';
import { readEntries } from './table-reader.ts';
import { TableTakeOver, tableState } from './table-take-over.ts';
import { TableView, nextOf } from './table-view.ts';
import type { ExpectedTraits } from './trait-reader.ts';
import { tablesText } from './table-text.ts';
import { TableWatch } from './table-watch.ts';

/** A transaction with everything is one datagram: 50,000 Services with 10 endpoints each take 100 MiB. */
const SEND_BUFFER = 512 * 1024 * 1024;
const ATTEMPTS = 5;

/** Returns the Kernel that programs nf_tables. It opens sockets only when they are first needed, and runs a program only to read the rules of others. */
export function createNftablesKernel(options: NodeKernelOptions): Kernel {
  return new NftablesKernel(new NodeKernel(options), undefined, options.modeObserver);
}

/** Returns a kernel that only reads. */
export function createNftablesKernelReader(options: NodeKernelOptions): KernelReader {
  return readOnlyKernel(new NftablesKernel(new NodeKernel(options)));
}

/** As createNftablesKernel, with other tables than the kernel's: for tests. */
export function nftablesKernelOf(node: NodeKernel, port: NftPort, observer?: ModeObserver): Kernel {
  return new NftablesKernel(node, port, observer);
}

/** The kernel of nftables mode. That of userspace mode writes the same tables. */
export class NftablesKernel extends TranslatingKernel implements Kernel {
  readonly mode: Kernel['mode'] = 'nftables';
  readonly #port: () => NftPort;
  readonly #observer: ModeObserver;
  readonly #takeOver = new TableTakeOver();
  /** The families whose table this process has written or adopted. */
  readonly #served = new Set<IpFamily>();
  readonly #views = new Map<IpFamily, TableView>();
  /** How the rules of a family were last asked for and, if they were right then, the generation of the ruleset. */
  readonly #checked = new Map<IpFamily, { readonly settings: RuleSettings; readonly generation?: number }>();
  readonly #own = new OwnTransactions();
  readonly #surplus: SurplusRemoval;
  /** Changes wait for the last attempt of a check of the rules, and it for them. */
  readonly #turns = new Turns();
  #onStateLost: (reason: string) => void = () => undefined;
  readonly #tables = new NftTables((family) => this.#view(family));
  constructor(node: NodeKernel, port?: NftPort, observer = NO_MODE_OBSERVER) {
    super(node);
    this.#observer = observer;
    this.#surplus = new SurplusRemoval(node.log, observer);
    this.#port =
      port === undefined
        ? once(() => new NftLink(node.open(NETLINK_NETFILTER, SEND_BUFFER), node.countWrites))
        : () => port;
  }

  async prepare(): Promise<void> {
    await this.ensureDevice();
  }

  /**
   * Creates the tables if they are missing. A table of another program that exists at the start is taken over later; one
   * that appears in the place of ours, because that program runs beside this one, is deleted. Deletes the leftovers of changes.
   */
  async ensureDevice(): Promise<{ readonly made: boolean }> {
    return await withKernelError('ensureDevice', async () => {
      let made = false;
      const errors: unknown[] = [];
      for (const family of await this.families()) {
        try {
          made = (await this.#ensureTable(family)) || made;
        } catch (error) {
          errors.push(error);
        }
      }
      await this.#removeLeftovers();
      for (const error of errors) throw error;
      return { made };
    });
  }

  /** A process that only reads deletes nothing. If it cannot be read which leftovers are in use again, they stay. */
  async #removeLeftovers(): Promise<void> {
    for (const [family, view] of this.#views) {
      if (!this.#served.has(family) || view.leftovers.isEmpty) continue;
      const isDone = await this.#turns.run(() => view.leftovers.remove(view)).catch(() => false);
      if (!isDone) this.#observer.cleanUpFailed(family);
    }
  }

  /** Returns whether it created the table. */
  async #ensureTable(family: IpFamily): Promise<boolean> {
    const state = await tableState(this.#port(), family);
    if (state === 'foreign' && !this.#served.has(family)) {
      this.#takeOver.expect(family);
      return false;
    }
    this.#served.add(family);
    this.#takeOver.forget(family);
    if (state === 'ours') return false;
    const deletion: NftMessage[] = state === 'foreign' ? [{ kind: 'delete-table' }] : [];
    const creation: NftMessage[] = [...deletion, { kind: 'new-table' }, ...contents([], family)];
    requireCommitted('create', family, await this.#port().commit(family, creation));
    return true;
  }

  async removeDevice(): Promise<void> {
    await withKernelError('removeDevice', async () => {
      for (const family of await this.families()) {
        if (!(await this.#port().hasTable(family))) continue;
        requireCommitted('delete', family, await this.#port().commit(family, [{ kind: 'delete-table' }]));
      }
    });
  }

  async getGeneration(): Promise<number> {
    return await withKernelError('getGeneration', async () => (await this.#port().lookUp(4, {})).generation);
  }

  async hasOnlyOwnChangesSince(generation: number): Promise<boolean> {
    return this.#own.areAll(generation, await this.getGeneration());
  }

  async apply(tx: Transaction): Promise<Outcome> {
    const now = this.#takeOver.keep(tx);
    try {
      return await this.#turns.run(() => this.#tables.apply(now));
    } catch (error) {
      const failures = refusalsOf([...now], error).map((refusal) => failureOf(refusal.item, refusal));
      return { failures, stopped: errorText(error) };
    }
  }

  override async close(): Promise<void> {
    await this.#removeLeftovers();
    await super.close();
  }

  async getVirtualServers(without?: ReadonlySet<IpFamily>): Promise<VirtualServer[]> {
    return await withKernelError('getVirtualServers', async () => {
      const found: VirtualServer[] = [];
      for (const family of this.#readable(without)) {
        for (const server of await listServers(this.#view(family))) found.push(server);
      }
      return found;
    });
  }

  async findVirtualServers(ids: readonly ExpectedTraits[]): Promise<Map<VirtualServerKey, VirtualServer>> {
    return await withKernelError('findVirtualServers', async () => {
      const found = new Map<VirtualServerKey, VirtualServer>();
      for (const [family, ofFamily] of this.#readableByFamily(ids)) {
        for (const server of await findServers(this.#view(family), ofFamily))
          found.set(virtualServerKey(server), server);
      }
      return found;
    });
  }

  async getRealServers(...[ids, expected]: Parameters<Kernel['getRealServers']>): ReturnType<Kernel['getRealServers']> {
    return await withKernelError('getRealServers', async () => {
      const found = new Map<VirtualServerKey, ObservedRealServer[]>();
      for (const [family, ofFamily] of this.#readableByFamily(ids)) {
        for (const [key, { state }] of await this.#view(family).findServices(ofFamily, expected)) {
          found.set(key, state.endpoints.map(realServerOf));
        }
      }
      return found;
    });
  }

  async getSets(names?: readonly string[], without?: ReadonlySet<IpFamily>): Promise<ObservedIpSet[]> {
    return await withKernelError('getSets', async () => {
      const found: ObservedIpSet[] = [];
      for (const family of this.#readable(without)) {
        for (const [name, set] of NODE_SETS[family]) {
          if (names?.includes(name) === false) continue;
          found.push({ ...set.ipSet, entries: await readEntries(this.#port(), family, set) });
        }
      }
      return found;
    });
  }

  async findRuleVariant(family: IpFamily): Promise<string> {
    return await withKernelError('findRuleVariant', async () => {
      await this.#port()
        .hasTable(family)
        .catch((error: unknown) => {
          if (!isWithoutTables(error)) throw error;
          const message = `this kernel has no nf_tables for ${nftFamily(family)}: load the module nf_tables, or use --proxy-mode=ipvs`;
          throw new KernelError('findRuleVariant', 'UNSUPPORTED', message, { cause: error });
        });
      return 'none';
    });
  }

  async probeRules(family: IpFamily): Promise<string> {
    const variant = await this.findRuleVariant(family);
    await withKernelError('probeRules', () => requireExpressions(this.#port(), family));
    return variant;
  }

  async ensureRules({ family, settings }: RuleSet): Promise<RulesWritten> {
    return await withKernelError('ensureRules', async () => {
      if (settings === undefined) return UNCHANGED_RULES;
      if (this.#takeOver.isExpected(family)) return await this.#takeOverTable(family, settings);
      for (let attempt = 1; attempt < ATTEMPTS; attempt++) {
        const { generation } = await this.#port().lookUp(family, {});
        // No program has changed the ruleset since.
        if (isDeepStrictEqual(this.#checked.get(family), { generation, settings })) return UNCHANGED_RULES;
        const written = await this.#repairRules(family, settings, generation);
        if (written !== undefined) return written;
      }
      // Only our own changes must wait: other programs change other tables.
      return (await this.#turns.run(() => this.#repairRules(family, settings))) ?? UNCHANGED_RULES;
    });
  }

  /** With `generation`, returns undefined if another program changes the ruleset meanwhile: it must be checked again. */
  async #repairRules(family: IpFamily, settings: RuleSettings, generation?: number): Promise<RulesWritten | undefined> {
    const port = this.#port();
    if (!(await port.hasTable(family)) && (await this.#ensureTable(family))) {
      this.#onStateLost(`table ${nftTable(family)} was deleted`);
    }
    const { repairs, chains, surplus, leftovers } = await checkRules(port, settings, family);
    this.#checked.set(family, { settings });
    let current = generation;
    for (const messages of repairs) {
      const refusal = await port.commit(family, messages, current);
      if (current !== undefined && refusal?.code === 'ERESTART') return undefined;
      requireCommitted('write rules of', family, refusal);
      if (current !== undefined) current = nextOf(current);
    }
    // Packets may still need leftovers of the repairs. Without a generation, leftovers may be in use again.
    const isQuiet = repairs.length === 0 && current !== undefined;
    const unneeded = isQuiet ? [...surplus, ...leftovers] : surplus;
    const { gone, interrupted } = await this.#surplus.run(port, family, unneeded, current);
    const repaired = gone.filter((each) => surplus.includes(each));
    if (repairs.length + repaired.length > 0) {
      const deleted = repaired.filter(({ kind }) => kind === 'delete-chain').map(({ name }) => name);
      return { changed: true, chains: [...new Set([...chains, ...deleted])] };
    }
    if (interrupted && surplus.length > 0) return undefined;
    if (generation !== undefined) this.#checked.set(family, { generation, settings });
    return UNCHANGED_RULES;
  }

  /** Returns false, and writes nothing, while the table belongs to another program. */
  async addRules(rules: RuleSet): Promise<boolean> {
    const isOurs = !this.#takeOver.isExpected(rules.family);
    if (isOurs) await this.ensureRules(rules);
    return isOurs;
  }

  async compareRules({ family, settings }: RuleSet): Promise<RulesInForce> {
    return await withKernelError('compareRules', async () => {
      if (settings === undefined) return { missing: [], packets: new Map() };
      if (!this.#checked.has(family)) this.#checked.set(family, { settings });
      const { repairs, surplus } = await checkRules(this.#port(), settings, family);
      const commands = [...repairs.flat(), ...surplus].map((message) => `nft '${messageText(message, family)}'`);
      return { missing: commands.map((command) => ({ command })), packets: new Map() };
    });
  }

  readonly getOtherRules = otherRulesReader(this.node, TABLE);

  override readonly listTables: Kernel['listTables'] = (most) =>
    withKernelError('listTables', () => tablesText(this.#port(), this.#readable(), this.#checked, most));

  override async forgetReadings(): Promise<void> {
    await withKernelError('forgetReadings', async () => {
      const unserved = (await this.families()).filter((family) => !this.#served.has(family));
      for (const family of unserved) await this.#takeOver.recognize(this.#port(), family);
    });
  }

  preview(...[rules, parts]: Parameters<Kernel['preview']>): ReturnType<Kernel['preview']> {
    return withKernelError('preview', () => previewOf(this.#port(), rules, parts));
  }

  watchNode(onChange: () => void, onStateLost: (reason: string) => void): () => void {
    this.#onStateLost = onStateLost;
    // kube-ipvs0 may still exist after a change of mode, and disappear then.
    const stopAddresses = this.node.watchAddresses(onChange, () => undefined);
    const tables = new TableWatch({
      log: this.node.log,
      generation: () => this.getGeneration(),
      isOwn: (before, after) => this.#own.areAll(before, after),
      isLost: async (family) => this.#served.has(family) && !(await this.#port().hasTable(family)),
      onTableLost: onStateLost,
    });
    tables.start();
    return () => {
      stopAddresses();
      tables.stop();
    };
  }

  /** The families whose table is not that of another program. */
  #readable(without: ReadonlySet<IpFamily> = new Set()): readonly IpFamily[] {
    return IP_FAMILIES.filter((family) => !this.#takeOver.isExpected(family) && !without.has(family));
  }

  #readableByFamily<T extends VirtualServerId>(ids: readonly T[]): readonly (readonly [IpFamily, T[]])[] {
    return [...Map.groupBy(ids, ({ address }) => familyOf(address))].filter(
      ([family]) => !this.#takeOver.isExpected(family),
    );
  }

  #view(family: IpFamily): TableView {
    let view = this.#views.get(family);
    if (view === undefined) this.#views.set(family, (view = new TableView(this.#port(), family, this.#own)));
    return view;
  }

  async #takeOverTable(family: IpFamily, settings: RuleSettings): Promise<RulesWritten> {
    const { chains, failures, refusal } = await this.#takeOver.run(this.#port(), family, settings);
    requireCommitted('replace', family, refusal);
    this.#served.add(family);
    return { changed: true, chains, failures };
  }
}
