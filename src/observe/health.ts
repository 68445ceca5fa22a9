import { type IpFamily, familyLabel } from '../base/ip.ts';

/** The taint that the cluster autoscaler puts on a node it is about to remove. */
const TO_BE_DELETED = 'ToBeDeletedByClusterAutoscaler';

/** The fields of the Node that decide whether load balancers should send traffic here. */
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

/** The monotonic clock for decisions, the wall clock for timestamps in responses. */
export interface HealthClock {
  now(): number;
  wallNow(): number;
}

/** One family, from its start: times in milliseconds of the monotonic clock. */
interface FamilyHealth {
  lastUpdated: number;
  /** When the first sync since the last success was requested. */
  oldestQueued: number | undefined;
}

/** Go's zero time, as kube-proxy reports it before the first sync. */
const NEVER = '0001-01-01T00:00:00Z';

/** @param wallLead by how much the wall clock is ahead of the monotonic one */
function timestamp(ms: number | undefined, wallLead: number): string {
  return ms === undefined ? NEVER : new Date(ms + wallLead).toISOString();
}

/**
 * Derives health from sync results: unhealthy if a requested sync has not succeeded for too long, healthy if none was
 * requested. Families that have not started do not count. Each `now` is monotonic time.
 */
export class ProxyHealth {
  readonly #staleAfter: number;
  readonly #nodeName: string;
  readonly #families = new Map<IpFamily, FamilyHealth>();
  #node: NodeEligibility | undefined;
  #problems: readonly string[] = [];

  /**
   * @param staleAfter milliseconds that a requested sync may be outstanding: twice the sync period
   * @param nodeName the name of our Node, for texts
   */
  constructor(staleAfter: number, nodeName = '') {
    this.#staleAfter = staleAfter;
    this.#nodeName = nodeName;
  }

  /** The sync loop of a family began. */
  started(family: IpFamily, now: number): void {
    this.#families.set(family, { lastUpdated: now, oldestQueued: undefined });
  }

  /** A sync was requested. */
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

  /** Records our Node. After its deletion, the last recorded state is kept. */
  nodeSeen(node: NodeEligibility): void {
    this.#node = node;
  }

  /** Sets problems of the node that neither syncs nor restarts repair. Responses list them; the status ignores them. */
  setProblems(problems: readonly string[]): void {
    this.#problems = problems;
  }

  familyHealthy(family: IpFamily, now: number): boolean {
    const queued = this.#families.get(family)?.oldestQueued;
    return queued === undefined || now - queued < this.#staleAfter;
  }

  /** Returns whether every started family is healthy. */
  healthy(now: number): boolean {
    return Array.from(this.#families.keys()).every((family) => this.familyHealthy(family, now));
  }

  /** Returns whether load balancers may send traffic here; false until our Node has been read. */
  nodeEligible(): boolean {
    return this.#ineligible() === undefined;
  }

  /** Returns why load balancers should send no traffic here; undefined if they may. */
  #ineligible(): string | undefined {
    const name = JSON.stringify(this.#nodeName);
    if (this.#node === undefined) return `no Node named ${name} has been seen: check --hostname-override`;
    if (this.#node.deleting) return `our Node ${name} is being deleted`;
    return this.#node.taintKeys.includes(TO_BE_DELETED) ? `our Node ${name} has the taint ${TO_BE_DELETED}` : undefined;
  }

  /** Returns why the proxy itself is unhealthy; undefined if it is healthy. */
  #unhealthy(now: number): string | undefined {
    const stale = Array.from(this.#families.keys()).filter((family) => !this.familyHealthy(family, now));
    if (stale.length === 0) return undefined;
    return `no sync of ${stale.map(familyLabel).join(' and ')} has succeeded for ${this.#staleAfter / 1000} s: the log says why`;
  }

  /** Returns the health of the proxy alone: whether a restart could help. */
  livez(clock: HealthClock): HealthAnswer {
    return this.#answer(clock, undefined);
  }

  /** Returns the health of the proxy and the node: whether a load balancer should send traffic here. */
  healthz(clock: HealthClock): HealthAnswer {
    return this.#answer(clock, this.nodeEligible());
  }

  #answer(clock: HealthClock, eligible: boolean | undefined): HealthAnswer {
    const now = clock.now();
    const wallLead = clock.wallNow() - now;
    const healthy = this.healthy(now);
    const good = healthy && eligible !== false;
    const reasons = [this.#unhealthy(now), eligible === false ? this.#ineligible() : undefined];
    const body = {
      lastUpdated: timestamp(good ? now : this.#lastUpdated(), wallLead),
      currentTime: timestamp(now, wallLead),
      ...(eligible === undefined ? {} : { nodeEligible: eligible }),
      healthy,
      ...(this.#problems.length === 0 ? {} : { problems: this.#problems }),
      status: this.#status(now, wallLead),
      ...(good ? {} : { reason: reasons.filter((reason) => reason !== undefined).join('; ') }),
    };
    return { status: good ? 200 : 503, body: JSON.stringify(body) };
  }

  #lastUpdated(): number | undefined {
    const times = Array.from(this.#families.values(), ({ lastUpdated }) => lastUpdated);
    return times.length === 0 ? undefined : Math.max(...times);
  }

  #status(now: number, wallLead: number): Record<string, { lastUpdated: string; healthy: boolean }> {
    const entries = Array.from(this.#families, ([family, { lastUpdated }]) => [
      familyLabel(family),
      { lastUpdated: timestamp(lastUpdated, wallLead), healthy: this.familyHealthy(family, now) },
    ]);
    return Object.fromEntries(entries) as Record<string, { lastUpdated: string; healthy: boolean }>;
  }
}
