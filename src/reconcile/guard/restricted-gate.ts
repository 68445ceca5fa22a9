import type { NodePlan } from '../../plan/node/node-plan.ts';
import type { Transaction } from '../../state/transaction.ts';
import {
  type VirtualServerId,
  type VirtualServerKey,
  formatVirtualServer,
  virtualServerKey,
  virtualServerId,
} from '../../state/virtual-server.ts';
import type { Log } from '../../observe/log/log.ts';
import { denyOf } from './deny-guard.ts';
import type { RuleKeeper } from '../node/rule-keeper.ts';

/**
 * Withholds virtual servers with source ranges until the iptables rules have been verified. A deny entry has no effect
 * without them: if another process flushed rules and virtual servers together, the rules must be restored first.
 */
export class RestrictedGate {
  /** Withheld virtual servers that wait for a check of the rules. */
  readonly #waiting = new Set<VirtualServerKey>();
  /** Virtual servers that may be added once. If one is missing again, the rules may have been flushed again, too. */
  readonly #open = new Set<VirtualServerKey>();
  readonly #rules: Pick<RuleKeeper, 'confirm'>;
  readonly #log: Log;

  constructor(rules: Pick<RuleKeeper, 'confirm'>, log: Log) {
    this.#rules = rules;
    this.#log = log;
  }

  /** Must be called when the rules were verified. The next change sync may then add these virtual servers. */
  open(ids: readonly VirtualServerId[], plan: Pick<NodePlan, 'touchVirtualServer'>): void {
    for (const id of ids) {
      const key = virtualServerKey(id);
      this.#waiting.delete(key);
      this.#open.add(key);
      plan.touchVirtualServer(id);
    }
  }

  /** Must be called when a change sync has processed these virtual servers. Adding one again requires another check. */
  close(ids: readonly VirtualServerId[]): void {
    for (const id of ids) this.#open.delete(virtualServerKey(id));
  }

  /**
   * Returns the operations, except those that add a withheld virtual server, and starts a check of the rules if any is
   * withheld.
   * A full check withholds all missing virtual servers with source ranges; change syncs add them.
   */
  pass(tx: Transaction, plan: Pick<NodePlan, 'entries'>, kind: 'change' | 'full'): Transaction {
    const withheld = new Set<VirtualServerKey>();
    const found: VirtualServerId[] = [];
    for (const { virtualServer } of tx.of('add-virtual-server')) {
      const key = virtualServerKey(virtualServer);
      if (denyOf(plan, virtualServer) === undefined || (kind === 'change' && this.#open.has(key))) continue;
      withheld.add(key);
      if (!this.#open.has(key) && !this.#waiting.has(key)) found.push(virtualServerId(virtualServer));
    }
    if (withheld.size === 0) return tx;
    this.#withhold(found, kind);
    return tx.filter((op) => {
      if (op.kind === 'add-virtual-server') return !withheld.has(virtualServerKey(op.virtualServer));
      return op.kind !== 'add-real-server' || !withheld.has(virtualServerKey(op.id));
    });
  }

  #withhold(ids: readonly VirtualServerId[], kind: 'change' | 'full'): void {
    if (ids[0] === undefined) return;
    if (kind === 'full') {
      this.#log.warn(
        'virtual servers with source ranges are missing, so they are not reachable. They are added as soon as a check has ' +
          'confirmed the iptables rules that enforce the ranges; if the check fails, an error follows',
        { virtualServers: ids.length, first: formatVirtualServer(ids[0]) },
      );
    }
    for (const id of ids) this.#waiting.add(virtualServerKey(id));
    this.#rules.confirm(ids);
  }
}
