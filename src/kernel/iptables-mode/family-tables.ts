import { isDeepStrictEqual } from 'node:util';
import type { IpFamily } from '../../base/ip.ts';
import { firstFew } from '../../base/text/first-few.ts';
import { Turns } from '../../base/turns.ts';
import { Yielder } from '../../base/yielder.ts';
import type { Log } from '../../observe/log/log.ts';
import type { Op } from '../../state/op.ts';
import { type Outcome, failureOf } from '../../state/outcome.ts';
import type { RuleSettings } from '../../state/rules/rule-settings.ts';
import type { RulesWritten } from '../../state/rules/rules-in-force.ts';
import { scriptChains } from '../iptables/iptables-script.ts';
import { asRefusal } from '../kernel-error.ts';
import type { ModeObserver } from '../mode-observer.ts';
import type { OwnTransactions } from '../own-transactions.ts';
import type { MissingExtension } from './extensions.ts';
import type { IptablesPort } from './iptables-port.ts';
import { KnownTables } from './known-tables.ts';
import { NODE_SETS, localnetRules, needsLocalnetRule, ruleOfEntry } from './node-sets.ts';
import { type WriteAttempt, PartWriter } from './part-writer.ts';
import type { ProxyState, ServicePortKey } from './proxy-state.ts';
import { type RefusedLine, refusedLines } from './refused-lines.ts';
import { type RenderContext, renderServicePort } from './render/render-service-port.ts';
import { RuleCounter } from './rule-counter.ts';
import { ruleOwners } from './rule-owners.ts';
import type { Rendered } from './render/service-port.ts';
import { type StateOp, applyToState, isEntryOp, possibleOps, touchedPorts } from './state-change.ts';
import { TableChange } from './table-change.ts';
import { type TableCheckResult, TableCheck } from './table-check.ts';
import type { TableImage } from './table-image.ts';

/**
 * Lines of a script of the nft variant. To each line, iptables-nft-restore 1.8.9 looks for the chains that it names in a list of
 * all that the script has named, so the time grows with the square of their number.
 */
const MOST_LINES = 2_000;

const NOTHING: Rendered = { chains: [], shared: [] };

export interface FamilyTablesOptions {
  readonly port: IptablesPort;
  readonly own: OwnTransactions;
  readonly log: Pick<Log, 'info'>;
  readonly observer: ModeObserver;
  readonly maxAgeMs?: number | undefined;
}

/**
 * The tables of one family. iptables can read tables only as a whole. So their rules are known from the last read and the
 * successful writes after it; after a failed write, the tables are read again.
 */
export class FamilyTables {
  readonly #family: IpFamily;
  readonly #known: KnownTables;
  readonly #log: Pick<Log, 'info'>;
  readonly #observer: ModeObserver;
  readonly #rules: RuleCounter;
  /** Rules must not change between the reading and the writing of an operation. */
  readonly #turns = new Turns();
  #settings: RuleSettings | undefined;
  #repaired = false;
  /** How often the tables had been read when the current operations began. */
  #readingsBefore = 0;
  readonly #parts: PartWriter;
  /** What the kernel lacks: the Services that need it are refused without a write, so that they do not stop the others. */
  lacks: readonly MissingExtension[] = [];

  constructor(family: IpFamily, { port, own, log, observer, maxAgeMs }: FamilyTablesOptions) {
    this.#family = family;
    this.#known = new KnownTables(family, port, own, maxAgeMs);
    this.#log = log;
    this.#observer = observer;
    this.#rules = new RuleCounter(family, observer);
    this.#parts = new PartWriter({
      state: async () => (await this.#known.read()).state,
      attempt: (ops, wasRefused) => this.#attempt(ops, wasRefused),
      // A restore may have failed because of single rules if anything can be written.
      canWrite: () =>
        port.test(family).then(
          () => true,
          () => false,
        ),
      // Only the nft variant has generations.
      mostLines: async () => ((await this.#known.read()).generation === undefined ? Infinity : MOST_LINES),
    });
  }

  /** Discards what was read before this time (performance.now()). */
  async forgetBefore(time: number): Promise<void> {
    await this.#turns.run(() => this.#known.forgetBefore(time));
  }

  /** Returns what the tables have. `fresh`: as they are now, not as they were read some time ago. */
  async state(fresh = false): Promise<ProxyState> {
    return await this.#turns.run(async () => {
      if (fresh) await this.#known.forgetOld();
      return (await this.#known.read()).state;
    });
  }

  /** Whether it is known that only this program has written since, in either family. */
  async hasOnlyOwnChangesSince(generation: number): Promise<boolean> {
    return await this.#known.hasOnlyOwnChangesSince(generation);
  }

  /** Applies operations. What is refused does not stop the rest. */
  async apply(ops: Iterable<Op>): Promise<Outcome> {
    const { possible, failures } = possibleOps(ops, this.#family, this.lacks);
    if (possible.length === 0) return { failures };
    const written = await this.#turns.run(async () => {
      this.#readingsBefore = this.#known.readings;
      return await this.#parts.write(possible);
    });
    return { ...written, failures: [...failures, ...written.failures] };
  }

  /** Writes what differs. */
  async ensure(settings: RuleSettings): Promise<RulesWritten> {
    return await this.#turns.run(async () => await this.#repair(await this.#compare(settings)));
  }

  /** Like ensure, but writes nothing and returns false if it would replace rules of others. */
  async add(settings: RuleSettings): Promise<boolean> {
    return await this.#turns.run(async () => {
      const checked = await this.#compare(settings);
      if (checked.replacesOthers) return false;
      await this.#repair(checked);
      return true;
    });
  }

  /** Returns the input for iptables-restore that would write what differs. */
  async difference(settings: RuleSettings): Promise<string> {
    return await this.#turns.run(async () => (await this.#compare(settings)).repair?.script() ?? '');
  }

  /** Returns what differs now. */
  async #compare(settings: RuleSettings): Promise<TableCheckResult> {
    if (!isDeepStrictEqual(settings, this.#settings)) this.#known.forget();
    this.#settings = settings;
    await this.#known.forgetOld();
    const checked = await this.#check(settings);
    if (checked.repair !== undefined) return checked;
    this.#known.forget();
    return await this.#check(settings);
  }

  async #check(settings: RuleSettings): Promise<TableCheckResult> {
    const reading = await this.#known.read();
    if (reading.checked !== undefined) return reading.checked;
    const { state, saved = new Map<string, never>() } = reading;
    const check = new TableCheck(saved, settings);
    reading.saved = undefined;
    const context = contextOf(state, settings);
    const yielder = new Yielder();
    for (const port of state.servicePorts()) {
      check.add(renderedPort(state, port, context));
      if (yielder.due) await yielder.yieldIfDue();
    }
    for (const name of NODE_SETS[this.#family].keys()) {
      for (const entry of state.entriesOf(name)) {
        for (const rule of ruleOfEntry(entry)) check.addShared(rule);
      }
    }
    for (const rule of localnetRules(state.nodePortAddresses())) check.addShared(rule);
    reading.checked = check.finish();
    this.#rules.set(reading.checked.counts);
    return reading.checked;
  }

  async #repair(checked: TableCheckResult): Promise<RulesWritten> {
    const { repair } = checked;
    if (repair === undefined || repair.isEmpty) return { changed: false, chains: [] };
    const script = repair.script();
    try {
      await this.#known.write(script);
    } catch (error) {
      this.#known.forget();
      throw error;
    }
    this.#rules.written(script);
    repair.commit();
    checked.repair = undefined;
    const chains = scriptChains(script);
    const named = this.#repaired ? { chains: firstFew(chains) } : {};
    this.#repaired = true;
    this.#log.info('iptables rules written', { family: this.#family, lines: script.split('\n').length - 1, ...named });
    return { changed: true, chains };
  }

  /** Tries to write operations together. */
  async #attempt(ops: readonly StateOp[], wasRefused: boolean): Promise<WriteAttempt> {
    if (this.#settings === undefined) {
      const refusal = { errno: 0, code: 'ENOENT', text: 'there are no rules yet' };
      return { failures: ops.map((op) => failureOf(op, refusal)), refusal: undefined };
    }
    const checked = await this.#check(this.#settings);
    const reading = await this.#known.read();
    const { state } = reading;
    const { change, failures, undo, owners } = changeOf(state, checked.image, ops, this.#settings);
    if (change.isEmpty) return { failures, refusal: undefined };
    const script = change.script();
    try {
      await this.#known.write(script);
    } catch (error) {
      undo();
      this.#observer.partialRestoreFailed(this.#family);
      const lines = refusedLines(error, script);
      reading.isIncomplete = true;
      const isKnownBetter = this.#learn(change, lines, wasRefused);
      return {
        failures,
        refusal: { ...asRefusal(error), isKnownBetter, atFault: (units) => owners(state, units, lines) },
      };
    }
    change.commit();
    this.#rules.written(script, change.difference);
    // A change keeps tables correct that were correct before.
    if (checked.repair?.isEmpty === false) checked.repair = undefined;
    return { failures, refusal: undefined };
  }

  /** Learns from a refusal what the tables have. Returns whether another attempt makes sense. */
  #learn(change: TableChange, lines: readonly RefusedLine[], wasRefused: boolean): boolean {
    const isKept = change.keepReferred(lines);
    const isFresh = this.#known.readings > this.#readingsBefore;
    const isStale = !isFresh && !isKept && !wasRefused;
    const [first] = lines;
    if (isStale || first === undefined || !change.commitTables(first.written)) this.#known.forget();
    return isKept || isStale;
  }
}

function contextOf(state: ProxyState, settings: RuleSettings): RenderContext {
  return {
    settings,
    nodePortAddresses: state.nodePortAddresses(),
    hasServiceRule: (id) => {
      const server = state.server(id);
      return server !== undefined && server.state.endpoints.length > 0 && server.traits?.kind !== 'nodePort';
    },
  };
}

function renderedPort(state: ProxyState, port: ServicePortKey, context: RenderContext): Rendered {
  const servicePort = state.servicePort(port);
  return servicePort === undefined ? NOTHING : renderServicePort(servicePort, context);
}

/** Applies operations to the state. Returns the change of the tables that follows. */
function changeOf(state: ProxyState, image: TableImage, ops: readonly StateOp[], settings: RuleSettings) {
  const ports = [...touchedPorts(state, ops)];
  const entries = ops.filter(isEntryOp);
  const changesLocalnet = entries.some(({ entry }) => needsLocalnetRule(entry));
  const render = (): { readonly ports: readonly Rendered[]; readonly ofNode: Rendered } => {
    const context = contextOf(state, settings);
    const present = entries.filter(({ set, entry }) => state.hasEntry(set.name, entry));
    const ofLocalnet = changesLocalnet ? localnetRules(state.nodePortAddresses()) : [];
    return {
      ports: ports.map((port) => renderedPort(state, port, context)),
      ofNode: { chains: [], shared: [...present.flatMap(({ entry }) => ruleOfEntry(entry)), ...ofLocalnet] },
    };
  };
  const before = render();
  const { failures, undo } = applyToState(state, ops);
  const after = render();
  const change = new TableChange(image);
  change.ensureBase(settings);
  change.replace(before.ofNode, after.ofNode);
  for (const [index, port] of after.ports.entries()) change.replace(before.ports[index] ?? NOTHING, port);
  return { change, failures, undo, owners: ruleOwners(ports, before.ports, after.ports) };
}
