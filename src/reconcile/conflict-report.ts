import type { Log } from '../observe/log.ts';
import type { Conflict } from '../plan/node-plan.ts';

/** Says of each virtual server that two Services want, once, who goes without; and again when it comes back after it was solved. */
export class ConflictReport {
  readonly #log: Log;
  #known: ReadonlySet<string> = new Set();

  constructor(log: Log) {
    this.#log = log;
  }

  update(conflicts: Iterable<Conflict>): void {
    const now = new Set<string>();
    for (const { service, owner, virtualServer } of conflicts) {
      const key = `${service} ${virtualServer}`;
      now.add(key);
      if (this.#known.has(key)) continue;
      const cure = 'give one of the two another address or port';
      this.#log.warn(`${virtualServer} is wanted by two services and served for ${owner} only: ${cure}`, { service });
    }
    this.#known = now;
  }
}
