import { MODES, type ModeFacts } from '../../base/proxy-mode.ts';
import { errorText } from '../../base/text/error-text.ts';
import type { Kernel } from '../../kernel/kernel.ts';
import { doublingDelay } from '../../base/timer.ts';
import { type IpFamily, familyOf } from '../../base/ip.ts';
import { planRules } from '../../plan/ipvs/plan-rules.ts';
import type { PlanConfig } from '../../plan/plan-config.ts';
import type { Log, LogFields } from '../../observe/log/log.ts';
import { type RuleTable, withoutTables } from '../../state/rules/rule-set.ts';
import type { OpFailure } from '../../state/outcome.ts';
import type { VirtualServerId } from '../../state/virtual-server.ts';
import type { Clock } from '../timing/clock.ts';

const TRANSLATING: ReadonlySet<RuleTable> = new Set(['nat']);

export type OnRulesRepaired = (family: IpFamily, chains: readonly string[]) => void;

export interface RuleKeeperOptions {
  readonly kernel: Kernel;
  readonly plan: PlanConfig;
  /** Maximum delay between two attempts. */
  readonly syncPeriodMs: number;
  readonly clock: Clock;
  readonly log: Log;
  /** Called when rules that another process removed or changed were restored. */
  readonly onRulesRepaired?: OnRulesRepaired;
  /** Called when a check that began after `confirm` found or restored the rules of these virtual servers' family. */
  readonly onConfirmed: (ids: readonly VirtualServerId[]) => void;
}

const OF_IPTABLES = {
  failed: 'failed to check or restore the iptables rules of',
  restored: 'iptables rules were missing or changed by another process: restored',
  inForce: 'iptables rules in force again',
};

const WORDS = {
  iptables: OF_IPTABLES,
  nf_tables: {
    failed: 'failed to check or restore the rules of nf_tables of',
    restored: 'rules of nf_tables were missing or changed by another process: restored',
    inForce: 'rules of nf_tables in force again',
  },
} as const;

/**
 * Checks and restores the rules concurrently with the syncs: iptables-restore waits while another program
 * holds the iptables lock, and syncs must not wait for that. Failures are logged here and retried with back-off.
 */
export class RuleKeeper {
  readonly #options: RuleKeeperOptions;
  #underWay: Promise<void> | undefined;
  /** Whether another check must follow the running one. */
  #again = false;
  readonly #unconfirmed: Record<IpFamily, VirtualServerId[]> = { 4: [], 6: [] };
  #failedChecks = 0;
  #stopped = false;
  #cancelRetry: () => void = () => {};

  constructor(options: RuleKeeperOptions) {
    this.#options = options;
  }

  /**
   * Writes the rules of a family before the first sync adds a virtual server, because they implement source ranges,
   * masquerading and the access filter. Rejects if they cannot be written. Where our chains hold other rules, it writes
   * nothing and returns false: those of kube-proxy in iptables mode forward service traffic themselves, so they must stay
   * until the virtual servers exist.
   */
  async addFirst(family: IpFamily): Promise<boolean> {
    const { kernel, plan } = this.#options;
    return await kernel.addRules(planRules(plan, family));
  }

  /**
   * Writes the rules that deny, also over other rules, but not those of table nat: what another program translates
   * stays translated. Rejects if they cannot be written.
   */
  async replaceDenying(family: IpFamily): Promise<void> {
    const { kernel, plan } = this.#options;
    await kernel.ensureRules(withoutTables(planRules(plan, family), TRANSLATING));
  }

  /**
   * Writes all rules, also over other rules. Rejects if they cannot be written. Returns the operations that waited for
   * the rules and were refused.
   */
  async replaceOthers(family: IpFamily): Promise<readonly OpFailure[]> {
    const { kernel, plan } = this.#options;
    const { failures = [] } = await kernel.ensureRules(planRules(plan, family));
    return failures;
  }

  /**
   * Starts a check without waiting for it. If a check is running, another one follows it, because the running one may
   * have started before the caller's changes.
   */
  check(): void {
    this.#again = this.#underWay !== undefined;
    if (this.#stopped || this.#again) return;
    this.#cancelRetry();
    this.#underWay = this.#checkAll().finally(() => {
      this.#underWay = undefined;
      if (this.#again) this.check();
    });
  }

  /** Requests a check that calls onConfirmed() for these virtual servers. It starts after any running check. */
  confirm(ids: readonly VirtualServerId[]): void {
    for (const id of ids) this.#unconfirmed[familyOf(id.address)].push(id);
    this.check();
  }

  get #words(): (typeof WORDS)[ModeFacts['rules']] {
    return WORDS[MODES[this.#options.kernel.mode].rules];
  }

  /** Waits for the running check, and prevents others. */
  async stop(): Promise<void> {
    this.#stopped = true;
    this.#cancelRetry();
    await this.#underWay;
  }

  async #checkAll(): Promise<void> {
    const { plan, syncPeriodMs, clock, log } = this.#options;
    const failures: [IpFamily, unknown][] = [];
    for (const family of plan.families) {
      if (this.#stopped) return;
      try {
        await this.#ensure(family);
      } catch (error) {
        failures.push([family, error]);
      }
    }
    if (failures.length === 0) {
      if (this.#failedChecks > 0) log.info(this.#words.inForce);
      this.#failedChecks = 0;
      return;
    }
    this.#failedChecks += 1;
    const inMs = doublingDelay(this.#failedChecks, syncPeriodMs);
    for (const [family, error] of failures) {
      const reason = errorText(error);
      log.error(
        `${this.#words.failed} IPv${family}, next attempt in ${Math.ceil(inMs / 1_000)} s: ${reason}`,
        withheldField(this.#unconfirmed[family]),
      );
    }
    if (!this.#stopped) this.#cancelRetry = clock.setTimer(() => this.check(), inMs);
  }

  async #ensure(family: IpFamily): Promise<void> {
    const { kernel, plan, log, onRulesRepaired, onConfirmed } = this.#options;
    const ids = this.#unconfirmed[family];
    this.#unconfirmed[family] = [];
    try {
      const { changed, chains } = await kernel.ensureRules(planRules(plan, family));
      if (changed) {
        log.warn(this.#words.restored, { family });
        onRulesRepaired?.(family, chains);
      }
    } catch (error) {
      this.#unconfirmed[family] = [...ids, ...this.#unconfirmed[family]];
      throw error;
    }
    if (ids.length > 0) onConfirmed(ids);
  }
}

function withheldField(ids: readonly VirtualServerId[]): LogFields {
  return ids.length === 0 ? {} : { withheld: `${ids.length} virtual servers with source ranges` };
}
