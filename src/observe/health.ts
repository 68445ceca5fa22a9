import { type IpFamily, familyLabel } from '../net/ip.ts';

/** The taint that the cluster autoscaler puts on a node it is about to remove. */
const TO_BE_DELETED = 'ToBeDeletedByClusterAutoscaler';

/** What of the Node decides whether load balancers should send traffic here. */
export interface NodeEligibility {
  /** The Node has a deletionTimestamp. */
  readonly deleting: boolean;
  readonly taintKeys: readonly string[];
}

export interface HealthAnswer {
  readonly status: 200 | 503;
  /** JSON. */
  readonly body: string;
}

/** One family, from its start: times in milliseconds since 1970. */
interface FamilyHealth {
  lastUpdated: number;
  /** The first sync that was asked for since the last success. */
  oldestQueued: number | undefined;
}

/** Go's zero time, which is what kube-proxy reports before anything happened. */
const NEVER = '0001-01-01T00:00:00Z';

function timestamp(ms: number | undefined): string {
  return ms === undefined ? NEVER : new Date(ms).toISOString();
}

/**
 * Whether this proxy does its work, by outcomes: a sync that was asked for must succeed within a time. Asking and failing for long is
 * unhealthy; having nothing to do never is. Families that have not started do not count.
 */
export class ProxyHealth {
  readonly #staleAfter: number;
  readonly #families = new Map<IpFamily, FamilyHealth>();
  #node: NodeEligibility | undefined;

  /** @param staleAfter milliseconds that a wanted sync may be outstanding: twice the sync period */
  constructor(staleAfter: number) {
    this.#staleAfter = staleAfter;
  }

  /** The sync loop of a family began. */
  started(family: IpFamily, now: number): void {
    this.#families.set(family, { lastUpdated: now, oldestQueued: undefined });
  }

  /** A sync was asked for. */
  queued(family: IpFamily, now: number): void {
    const health = this.#families.get(family);
    if (health !== undefined) health.oldestQueued ??= now;
  }

  /** A sync succeeded. */
  synced(family: IpFamily, now: number): void {
    const health = this.#families.get(family);
    if (health === undefined) return;
    health.lastUpdated = now;
    health.oldestQueued = undefined;
  }

  /** The Node as last seen; a Node that is gone leaves what was known. */
  nodeSeen(node: NodeEligibility): void {
    this.#node = node;
  }

  familyHealthy(family: IpFamily, now: number): boolean {
    const queued = this.#families.get(family)?.oldestQueued;
    return queued === undefined || now - queued < this.#staleAfter;
  }

  /** Every family that has started is healthy. */
  healthy(now: number): boolean {
    return Array.from(this.#families.keys()).every((family) => this.familyHealthy(family, now));
  }

  /** False before any Node was seen. */
  nodeEligible(): boolean {
    return this.#node !== undefined && !this.#node.deleting && !this.#node.taintKeys.includes(TO_BE_DELETED);
  }

  /** The proxy alone: whether restarting it could help. */
  livez(now: number): HealthAnswer {
    return this.#answer(now, undefined);
  }

  /** The proxy and the node: whether a load balancer should send traffic here. */
  healthz(now: number): HealthAnswer {
    return this.#answer(now, this.nodeEligible());
  }

  #answer(now: number, eligible: boolean | undefined): HealthAnswer {
    const healthy = this.healthy(now);
    const good = healthy && eligible !== false;
    const body = {
      lastUpdated: good ? timestamp(now) : timestamp(this.#lastUpdated()),
      currentTime: timestamp(now),
      ...(eligible === undefined ? {} : { nodeEligible: eligible }),
      healthy,
      status: this.#status(now),
    };
    return { status: good ? 200 : 503, body: JSON.stringify(body) };
  }

  #lastUpdated(): number | undefined {
    const times = Array.from(this.#families.values(), ({ lastUpdated }) => lastUpdated);
    return times.length === 0 ? undefined : Math.max(...times);
  }

  #status(now: number): Record<string, { lastUpdated: string; healthy: boolean }> {
    const entries = Array.from(this.#families, ([family, { lastUpdated }]) => [
      familyLabel(family),
      { lastUpdated: timestamp(lastUpdated), healthy: this.familyHealthy(family, now) },
    ]);
    return Object.fromEntries(entries) as Record<string, { lastUpdated: string; healthy: boolean }>;
  }
}
