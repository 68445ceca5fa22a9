import type { NamespacedName } from '../net/names.ts';
import type { Log } from '../observe/log.ts';
import type { Conflict } from '../plan/node-plan.ts';
import type { PlanWarning } from '../plan/service-plan.ts';

/** Says of each virtual server that two Services want, once, who goes without; and again when it comes back after it was solved. */
export class ConflictReport {
  readonly #log: Log;
  readonly #onWarning: (service: NamespacedName, warning: PlanWarning) => void;
  #known: ReadonlySet<string> = new Set();

  /** `onWarning` is told what the log is told. */
  constructor(log: Log, onWarning: (service: NamespacedName, warning: PlanWarning) => void = () => undefined) {
    this.#log = log;
    this.#onWarning = onWarning;
  }

  update(conflicts: Iterable<Conflict>): void {
    const now = new Set<string>();
    for (const { service, owner, virtualServer } of conflicts) {
      const key = `${service} ${virtualServer}`;
      now.add(key);
      if (this.#known.has(key)) continue;
      const reason = 'virtual-server-taken';
      const cure = 'give one of the two another address or port';
      const message = `${virtualServer} is wanted by two services and served for ${owner} only: ${cure}`;
      this.#log.warn(message, { service, reason });
      this.#onWarning(service, { reason, message });
    }
    this.#known = now;
  }
}
