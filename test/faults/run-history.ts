import type { PlanConfig } from '../../src/plan/plan-config.ts';
import { familyOf, formatHostPort } from '../../src/base/ip.ts';
import { setName } from '../../src/state/set-roles.ts';
import { ipSetEntryKey } from '../../src/state/ip-set.ts';
import { type Outcome, formatFailure } from '../../src/state/outcome.ts';
import type { Transaction } from '../../src/state/transaction.ts';
import { formatVirtualServer, virtualServerKey } from '../../src/state/virtual-server.ts';
import { PLAN_CONFIG, Reconciling } from '../support/reconciling.ts';
import { OTHERS_PORT, deedsOf } from './acts.ts';
import { CONFIGS, NODE_SETTINGS } from './configs.ts';
import { ClusterObjects } from './cluster-objects.ts';
import type { FaultBed } from './fault-bed.ts';
import type { Change, FaultHistory, HostileAct, Step } from './fault-history.ts';
import { Interposer } from './interposer.ts';
import { RandomVerdicts } from './random-verdicts.ts';
import { orphansIn, targetOf } from './orphans.ts';
import { difference, wantedLines } from './state-lines.ts';
import { winnersOf } from './winners.ts';
import type { SyncReport } from '../../src/state/sync-report.ts';

const SYNC_PERIOD_MS = 30_000;
/** A check during a fault may need another one after it. */
const MOST_PASSES = 5;

/** One daemon, until it is killed or restarted. */
interface Life {
  readonly interposer: Interposer;
  readonly run: Reconciling;
}

/** Runs a history on a kernel and checks the resulting state. */
export class HistoryRun {
  readonly #bed: FaultBed;
  readonly #config: PlanConfig;
  readonly #objects = new ClusterObjects();
  /** Virtual servers that a starting daemon could not recognize as ours. */
  readonly #orphans = new Set<string>();
  readonly #problems: string[] = [];
  /** Other programs act during the sync. */
  #inTheMiddle = false;
  readonly #readUpTo: number;
  readonly #verdicts = new RandomVerdicts();
  #life: Life;

  constructor(bed: FaultBed, { config }: FaultHistory, number: number) {
    this.#readUpTo = number % 2 === 0 ? 0 : 16;
    this.#bed = bed;
    this.#config = CONFIGS[config] ?? PLAN_CONFIG;
    this.#life = this.#newLife();
  }

  /**
   * Rejects if the resulting kernel state is not what the Services require, when the last silent endpoint has answered.
   * `number` is that of the history. Returns how often an endpoint lost its weight.
   */
  static async check(bed: FaultBed, history: FaultHistory, number: number): Promise<number> {
    const run = new HistoryRun(bed, history, number);
    let first = true;
    for (const step of history.steps) {
      await run.#step(first ? { ...step, sync: 'restart' } : step);
      first = false;
    }
    await run.#judge(number);
    await run.#life.run.reconciler.stop();
    return run.#verdicts.judged;
  }

  #newLife(): Life {
    const interposer = new Interposer(this.#bed.kernel, (tx, outcome) => this.#noteApplied(tx, outcome));
    return {
      interposer,
      run: new Reconciling(interposer.kernel, {
        plan: this.#config,
        syncPeriodMs: SYNC_PERIOD_MS,
        nodeSettings: NODE_SETTINGS,
        endpointVerdicts: this.#verdicts,
        // The lists of the histories are short: with 0, changes do not read them.
        readUpTo: this.#readUpTo,
      }),
    };
  }

  async #step({ sync, changes, acts, trouble, silent, clockStep }: Step): Promise<void> {
    this.#life.run.clock.stepWall(clockStep * 1000);
    if (silent !== undefined) this.#silence(silent);
    for (const change of changes) if (change.call === 0) this.#change(change, this.#life);
    for (const act of acts) if (act.call === 0) await this.#act(act);
    if (sync === 'restart' && !this.#life.interposer.dead) await this.#restart();
    const life = this.#life;
    for (const change of changes) {
      if (change.call > 0) life.interposer.before(change.call, async () => this.#change(change, life));
    }
    for (const act of acts) if (act.call > 0) life.interposer.before(act.call, () => this.#act(act));
    this.#inTheMiddle = acts.some((act) => act.call > 0);
    life.interposer.begin(trouble);
    // The fault lasts for the whole step, so one attempt is enough.
    if (trouble !== undefined && sync === 'full check') await life.run.pass(SYNC_PERIOD_MS);
    else await this.#sync(sync);
    await life.interposer.idle();
    await life.interposer.end();
    if (!life.interposer.dead) return;
    await this.#restart();
    await this.#sync('restart');
    await this.#life.interposer.idle();
  }

  #silence(hosts: readonly number[]): void {
    const { run } = this.#life;
    this.#verdicts.hosts = hosts;
    run.reconciler.endpointsJudged(run.cluster.names());
  }

  /** Checks that virtual servers with source ranges are added after their deny entries, unless others act meanwhile. */
  #noteApplied(tx: Transaction, { failures }: Outcome): void {
    if (this.#bed.hasEntry === undefined || this.#inTheMiddle) return;
    const failed = new Set(failures.map(({ op }) => op));
    for (const op of tx.of('add-virtual-server')) {
      if (failed.has(op)) continue;
      const { address, port, protocol } = op.virtualServer;
      const family = familyOf(address);
      const key = ipSetEntryKey({ type: 'hash:ip,port', address, port, protocol });
      const deny = this.#life.run.reconciler.plan.entries('LOAD-BALANCER-FW', family).get(key)?.entry;
      if (deny === undefined || this.#bed.hasEntry(setName('LOAD-BALANCER-FW', family), deny)) continue;
      this.#problems.push(`served without its source ranges  ${formatVirtualServer(op.virtualServer)}`);
    }
  }

  async #restart(): Promise<void> {
    await this.#life.run.reconciler.stop();
    this.#life = this.#newLife();
  }

  async #sync(sync: Step['sync']): Promise<void> {
    const { run } = this.#life;
    if (sync === 'restart') {
      // As at every start of the daemon.
      await this.#bed.kernel.prepare();
      for (const [key, value] of NODE_SETTINGS.sysctls) await this.#bed.kernel.setSysctl(key, value);
      await this.#bed.kernel.setIpvsTimeouts(NODE_SETTINGS.timeouts);
      await this.#noteOrphans();
      await run.take(...this.#objects.listed());
    } else if (sync === 'change') await run.take();
    else await this.#fullCheck();
  }

  #change({ event }: Change, { run }: Life): void {
    this.#objects.apply(event);
    run.cluster.apply(event);
    run.reconciler.clusterChanged();
  }

  async #act({ act, pick }: HostileAct): Promise<void> {
    await this.#bed.act(deedsOf(act, { wanted: this.#wanted(), config: this.#config }, pick));
    const started = this.#life.run.reports.some(({ kind, ok }) => kind === 'first' && ok);
    if (!started) await this.#noteOrphans();
  }

  async #noteOrphans(): Promise<void> {
    for (const orphan of orphansIn(await this.#bed.found())) this.#orphans.add(orphan);
  }

  #wanted() {
    return winnersOf(this.#objects.listed(), this.#config, this.#bed.nodeAddresses);
  }

  /** Advances time until a full check has succeeded. */
  async #fullCheck(): Promise<SyncReport> {
    const { run, interposer } = this.#life;
    for (let pass = 0; pass < MOST_PASSES && !interposer.dead; pass++) {
      const report = await run.pass(SYNC_PERIOD_MS);
      await interposer.idle();
      await this.#followUp();
      if (report.kind === 'full' && report.ok) return report;
    }
    if (interposer.dead) return run.reports[0] as SyncReport;
    const errors = run.reports.map(({ kind, error }) => `${kind} ${error?.message ?? 'ok'}`);
    throw new Error(`no full check in ${MOST_PASSES} sync periods:\n${errors.slice(-MOST_PASSES).join('\n')}`);
  }

  /** Runs the change sync, due after the rules are in force, that adds virtual servers with source ranges. */
  async #followUp(): Promise<void> {
    const { run, interposer } = this.#life;
    if (interposer.dead || run.clock.nextIn !== 0) return;
    await run.pass(0);
    await interposer.idle();
  }

  /** Returns whether the virtual server may belong to another program, so that a daemon must not delete it. */
  #isOthers(target: string | undefined): boolean {
    if (target === undefined) return false;
    return this.#orphans.has(target) || (target.endsWith(`:${OTHERS_PORT}`) && !this.#wantsAddressOf(target));
  }

  #wantsAddressOf(target: string): boolean {
    return this.#wanted().addresses.some((one) => target.endsWith(` ${formatHostPort(one, OTHERS_PORT)}`));
  }

  /** Returns UDP flows to real servers that may no longer reply for their virtual server. */
  async #staleFlows(): Promise<string[]> {
    const { answering } = this.#wanted();
    const flows = await Promise.all(this.#config.families.map((family) => this.#bed.kernel.getUdpFlows(family)));
    const stale = flows.flat().filter((flow) => {
      const { destination, destinationPort, protocol, replySource, replySourcePort } = flow;
      const may = answering.get(virtualServerKey({ address: destination, port: destinationPort, protocol }));
      return may !== undefined && !may.some((one) => one.address === replySource && one.port === replySourcePort);
    });
    return stale.map(
      (flow) =>
        `stale flow  ${formatHostPort(flow.destination, flow.destinationPort)} -> ` +
        formatHostPort(flow.replySource, flow.replySourcePort),
    );
  }

  async #judge(number: number): Promise<void> {
    this.#silence([]);
    const report = await this.#fullCheck();
    const wanted = [...wantedLines(this.#wanted(), this.#config), ...(await this.#bed.standing(this.#config, number))];
    const known = new Set(wanted);
    const found = await this.#bed.found(number);
    const counting = found.filter((line) => known.has(line) || !this.#isOthers(targetOf(line)));
    const problems = [...this.#problems, ...difference(wanted, counting)];
    problems.push(...(await this.#staleFlows()));
    // Refused operations are still due for a retry, even if the check has repaired them. Orphans may be marked as ours
    // again by entries that the check wrote.
    const orphaned = found.some((line) => !known.has(line) && this.#orphans.has(targetOf(line) ?? ''));
    if (report.failures.length > 0 || orphaned) await this.#fullCheck();
    const { writes } = this.#bed.kernel.counters;
    const again = await this.#fullCheck();
    for (const [kind, count] of again.operations) problems.push(`second check  ${count} x ${kind}`);
    const more = this.#bed.kernel.counters.writes - writes;
    if (more > 0) problems.push(`second check  ${more} writes`);
    if (problems.length === 0) return;
    // Not a problem by itself: a retry may have succeeded.
    const refused = [...report.failures, ...again.failures].map((failure) => `refused  ${formatFailure(failure)}`);
    throw new Error([...problems, ...refused].join('\n'));
  }
}
