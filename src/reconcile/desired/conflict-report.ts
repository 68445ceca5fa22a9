import type { NamespacedName } from '../../base/service/names.ts';
import type { Log } from '../../observe/log/log.ts';
import type { NodePlan } from '../../plan/node/node-plan.ts';
import type { Conflict } from '../../plan/node/service-claims.ts';
import type { PlanWarning } from '../../plan/service-plan.ts';

/** Maximum number of Services that one sync logs by name. */
const LINES = 3;
/** Maximum number of Services that one sync reports to `onWarning`. */
const WARNINGS = 20;

const REASONS: Readonly<Record<Conflict['kind'], string>> = {
  'virtual-server': 'virtual-server-taken',
  'health-check-port': 'health-check-port-taken',
};

/** Reports Services that claim a virtual server or health check port of another Service, once for each change. */
export class ConflictReport {
  readonly #log: Log;
  readonly #onWarning: (service: NamespacedName, warning: PlanWarning) => void;
  /** The last message for each Service with a conflict. */
  readonly #reported = new Map<NamespacedName, string>();

  /** @param onWarning is called for the first WARNINGS Services of each update */
  constructor(log: Log, onWarning: (service: NamespacedName, warning: PlanWarning) => void = () => undefined) {
    this.#log = log;
    this.#onWarning = onWarning;
  }

  /** Logs new conflicts. The cost depends only on the number of changed conflicts. */
  update(plan: Pick<NodePlan, 'takeConflictChanges' | 'conflictsOf'>): void {
    const { services, total } = plan.takeConflictChanges();
    if (services.length === 0) return;
    let news = 0;
    for (const service of services) {
      const warning = warningOf(plan.conflictsOf(service));
      if (warning === undefined) {
        this.#reported.delete(service);
        continue;
      }
      const { reason, message } = warning;
      if (this.#reported.get(service) === message) continue;
      this.#reported.set(service, message);
      news += 1;
      if (news <= LINES) this.#log.warn(message, { service, reason });
      if (news <= WARNINGS) this.#onWarning(service, warning);
    }
    if (news > LINES) {
      this.#log.warn(
        `${news - LINES} more Services claim addresses or ports that belong to other Services, and are not served there: ` +
          `change these addresses or ports. In total, ${total} claims of ${this.#reported.size} Services are not served`,
        { services: this.#reported.size, claims: total },
      );
    }
  }
}

function warningOf([first, ...more]: readonly Conflict[]): PlanWarning | undefined {
  if (first === undefined) return undefined;
  const { claimed, owner, kind } = first;
  const cure = 'change the address or port of one of them';
  const others = more.length === 0 ? '' : `; ${more.length} more claims of this service are not served`;
  const message = `${claimed} is claimed by two services and served only for ${owner}: ${cure}${others}`;
  return { reason: REASONS[kind], message };
}
