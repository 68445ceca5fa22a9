import { isDeepStrictEqual } from 'node:util';
import { firstFew } from '../../base/text/first-few.ts';
import type { IpFamily } from '../../base/ip.ts';
import { Turns } from '../../base/turns.ts';
import { Yielder } from '../../base/yielder.ts';
import type { Log } from '../../observe/log/log.ts';
import type { Op } from '../../state/op.ts';
import type { Outcome } from '../../state/outcome.ts';
import type { RuleSettings } from '../../state/rules/rule-settings.ts';
import type { RulesWritten } from '../../state/rules/rules-in-force.ts';
import { parseSave, type SavedTables } from '../iptables/iptables-script.ts';
import { KernelError } from '../kernel-error.ts';
import type { ModeObserver } from '../mode-observer.ts';
import type { Lack } from './extensions.ts';
import type { IptablesPort } from './iptables-port.ts';
import type { OwnTransactions } from '../own-transactions.ts';
import type { ProxyState, ServicePortKey } from './proxy-state.ts';
import { type RenderContext, renderServicePort } from './render-service-port.ts';
import { SETS, ruleOfEntry } from './node-sets.ts';
import type { Rendered, SharedRule } from './service-port.ts';
import { type StateOp, applyToState, isEntryOp, sortOps, touchedPorts } from './state-change.ts';
import { readState } from './state-reader.ts';
import { type Attempt, PartWriter, failuresOf } from './part-writer.ts';
import { type RefusedLine, refusedLines } from './refused-lines.ts';
import { RuleCounter, ruleDifference } from './rule-counter.ts';
import { RuleOwners } from './rule-owners.ts';
import { TableChange } from './table-change.ts';
import {
  NO_REPAIR,
  TableCheck,
  type TableRepair,
  commitRepair,
  isNothing,
  repairScript,
  repairedChains,
} from './table-check.ts';
import type { TableImage } from './table-image.ts';

/** How old a reading may be for a full check, whose parts share one. */
const MAX_AGE_MS = 2_000;

/**
 * Lines of a script of the nft variant. To each line, iptables-nft-restore 1.8.9 looks for the chains that it names in a list of
 * all that the script has named, so the time grows with the square of their number.
 */
const MOST_LINES = 2_000;

const NOTHING: Rendered = { chains: [], shared: [] };

/** The last complete reading of the tables, and what was written since. */
interface Reading {
  readonly state: ProxyState;
  /** When it was last known to be true. */
  at: number;
  /** The generation of nf_tables before the rules were read; undefined if it is not known. */
  readonly generation: number | undefined;
  /** Until it is compared with what the tables must have. */
  saved: SavedTables | undefined;
}

/** What a comparison of the reading with what the tables must have came to. */
interface Checked {
  readonly image: TableImage;
  /** Undefined if it was written: only another reading shows what is left to repair. */
  repair: TableRepair | undefined;
}

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
  readonly #port: IptablesPort;
  readonly #own: OwnTransactions;
  readonly #log: Pick<Log, 'info'>;
  readonly #observer: ModeObserver;
  readonly #rules: RuleCounter;
  readonly #maxAgeMs: number;
  /** Rules must not change between the reading and the writing of an operation. */
  readonly #turns = new Turns();
  #settings: RuleSettings | undefined;
  #reading: Reading | undefined;
  #checked: Checked | undefined;
  #repaired = false;
  /** Whether the tables were read since the current operations began. */
  #isFresh = false;
  /** Whether the tables may have rules that the state does not, after a refusal. */
  #isIncomplete = false;
  readonly #parts: PartWriter;
  /** What the kernel lacks: the Services that need it are refused without a write, so that they do not stop the others. */
  lacks: readonly Lack[] = [];

  constructor(family: IpFamily, { port, own, log, observer, maxAgeMs = MAX_AGE_MS }: FamilyTablesOptions) {
    this.#family = family;
    this.#port = port;
    this.#own = own;
    this.#log = log;
    this.#observer = observer;
    this.#rules = new RuleCounter(family, observer);
    this.#maxAgeMs = maxAgeMs;
    this.#parts = new PartWriter({
      state: async () => (await this.#read()).state,
      attempt: (ops, wasRefused) => this.#attempt(ops, wasRefused),
      canWrite: () => this.#canWrite(),
      // Only the nft variant has generations.
      mostLines: async () => ((await this.#read()).generation === undefined ? Infinity : MOST_LINES),
    });
  }

  /** The tables are read again when they are needed next. */
  async forget(): Promise<void> {
    await this.#turns.run(() => Promise.resolve(this.#forget()));
  }

  /** Returns what the tables have. `fresh`: as they are now, not as they were read some time ago. */
  async state(fresh = false): Promise<ProxyState> {
    return await this.#turns.run(async () => {
      if (fresh) await this.#forgetOld();
      return (await this.#read()).state;
    });
  }

  /** Applies operations. What is refused does not stop the rest. */
  async apply(ops: Iterable<Op>): Promise<Outcome> {
    const { possible, failures } = sortOps(ops, this.#family, this.lacks);
    if (possible.length === 0) return { failures };
    const written = await this.#turns.run(async () => {
      this.#isFresh = false;
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
      const repair = await this.#compare(settings);
      if (repair.replacesOthers) return false;
      await this.#repair(repair);
      return true;
    });
  }

  /** Returns the input for iptables-restore that would write what differs. */
  async difference(settings: RuleSettings): Promise<string> {
    return await this.#turns.run(async () => repairScript(await this.#compare(settings)));
  }

  async #forgetOld(): Promise<void> {
    const reading = this.#reading;
    if (reading === undefined) return;
    if (this.#isIncomplete) this.#forget();
    else if (performance.now() - reading.at >= this.#maxAgeMs) {
      if (await this.hasOnlyOwnChangesSince(reading.generation)) reading.at = performance.now();
      else this.#forget();
    }
  }

  /** Whether it is known that only this program has written since, in either family. */
  async hasOnlyOwnChangesSince(generation: number | undefined): Promise<boolean> {
    if (generation === undefined) return false;
    const now = await this.#port.generation();
    return now !== undefined && this.#own.areAll(generation, now);
  }

  #forget(): void {
    this.#reading = undefined;
    this.#checked = undefined;
  }

  async #read(): Promise<Reading> {
    if (this.#reading !== undefined) return this.#reading;
    const generation = await this.#port.generation();
    const saved = parseSave(await this.#port.read(this.#family));
    // With thousands of chains, iptables-nft-save takes seconds: longer than a reading may be old.
    const at = performance.now();
    const state = await readState(saved, this.#family);
    this.#isFresh = true;
    this.#isIncomplete = false;
    return (this.#reading = { state, saved, at, generation });
  }

  /** Returns what differs now. */
  async #compare(settings: RuleSettings): Promise<TableRepair> {
    if (!isDeepStrictEqual(settings, this.#settings)) this.#forget();
    this.#settings = settings;
    await this.#forgetOld();
    if (this.#checked !== undefined && this.#checked.repair === undefined) this.#forget();
    return (await this.#check(settings)).repair ?? NO_REPAIR;
  }

  async #check(settings: RuleSettings): Promise<Checked> {
    if (this.#checked !== undefined) return this.#checked;
    const reading = await this.#read();
    const check = new TableCheck(reading.saved ?? new Map<string, never>(), settings);
    reading.saved = undefined;
    const { state } = reading;
    const context = contextOf(state, settings);
    const yielder = new Yielder();
    for (const port of state.servicePorts()) {
      check.add(renderedPort(state, port, context));
      if (yielder.due) await yielder.yieldIfDue();
    }
    for (const name of SETS[this.#family].keys()) {
      for (const entry of state.entriesOf(name)) {
        for (const rule of ruleOfEntry(entry)) check.addShared(rule);
      }
    }
    const repair = check.finish();
    this.#rules.set(check.counts);
    return (this.#checked = { image: check.image, repair });
  }

  async #repair(repair: TableRepair): Promise<RulesWritten> {
    const script = repairScript(repair);
    if (script === '') return { changed: false, chains: [] };
    await this.#restore(script);
    this.#rules.written(script);
    if (this.#checked !== undefined) {
      commitRepair(this.#checked.image, repair);
      this.#checked.repair = undefined;
    }
    const chains = repairedChains(repair);
    const named = this.#repaired ? { chains: firstFew(chains) } : {};
    this.#repaired = true;
    this.#log.info('iptables rules written', { family: this.#family, lines: script.split('\n').length - 1, ...named });
    return { changed: true, chains };
  }

  async #restore(script: string): Promise<void> {
    try {
      await this.#writeScript(script);
    } catch (error) {
      this.#forget();
      throw error;
    }
  }

  async #writeScript(script: string): Promise<void> {
    const before = await this.#port.generation();
    await this.#port.write(this.#family, script);
    if (before === undefined) return;
    // Each table of the script is a transaction. If there were more, another program has made one.
    const after = before + (script.match(/^COMMIT$/gm)?.length ?? 0);
    if ((await this.#port.generation()) === after) this.#own.record(before, after);
  }

  /** Tries to write operations together. */
  async #attempt(ops: readonly StateOp[], wasRefused: boolean): Promise<Attempt> {
    if (this.#settings === undefined) {
      const error = new KernelError('apply', 'ENOENT', 'there are no rules yet');
      return { failures: failuresOf(ops, error), refusal: undefined };
    }
    const { image } = await this.#check(this.#settings);
    const { state } = await this.#read();
    const { change, failures, undo, owners, difference } = changeOf(state, image, ops, this.#settings);
    const script = change.script();
    if (script === '') return { failures, refusal: undefined };
    try {
      await this.#writeScript(script);
    } catch (error) {
      undo();
      this.#observer.partialRestoreFailed(this.#family);
      const lines = refusedLines(error, script);
      const isKnownBetter = this.#learn(change, lines, wasRefused);
      return { failures, refusal: { error, isKnownBetter, atFault: (units) => owners.unitsOf(state, units, lines) } };
    }
    change.commit();
    this.#rules.written(script, difference);
    // What was in order before a change is in order after it.
    if (this.#checked?.repair !== undefined && !isNothing(this.#checked.repair)) this.#checked.repair = undefined;
    return { failures, refusal: undefined };
  }

  /** Learns from a refusal what the tables have. Returns whether another attempt makes sense. */
  #learn(change: TableChange, lines: readonly RefusedLine[], wasRefused: boolean): boolean {
    const isKept = change.keepReferred(lines);
    const isStale = !this.#isFresh && !isKept && !wasRefused;
    this.#isIncomplete = true;
    const [first] = lines;
    if (isStale || first === undefined || !change.commitTables(first.written)) this.#forget();
    return isKept || isStale;
  }

  /** Whether anything can be written, so that a restore may have failed because of single rules. */
  async #canWrite(): Promise<boolean> {
    try {
      await this.#port.test(this.#family);
      return true;
    } catch {
      return false;
    }
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
  const renderAll = () => {
    const context = contextOf(state, settings);
    return {
      ports: ports.map((port) => renderedPort(state, port, context)),
      shared: entries.flatMap(({ set, entry }): readonly SharedRule[] =>
        state.hasEntry(set.name, entry) ? ruleOfEntry(entry) : [],
      ),
    };
  };
  const before = renderAll();
  const { failures, undo } = applyToState(state, ops);
  const after = renderAll();
  const change = new TableChange(image);
  change.ensureBase(settings);
  change.replaceShared(before.shared, after.shared);
  for (const [index, port] of after.ports.entries()) change.replace(before.ports[index] ?? NOTHING, port);
  const [old, now] = [before, after].map(({ ports: rendered, shared }) => [...rendered, { chains: [], shared }]);
  const difference = ruleDifference(old ?? [], now ?? []);
  return { change, failures, undo, owners: new RuleOwners(ports, before.ports, after.ports), difference };
}
