import { type IpFamily, familyLabel } from '../base/ip.ts';

/** The taint that the cluster autoscaler puts on a node that it is about to remove. */
const TO_BE_DELETED = 'ToBeDeletedByClusterAutoscaler';

/** The fields of the Node that decide whether load balancers should send traffic here. */
export interface NodeEligibility {
  /** Whether the Node has a deletionTimestamp. */
  readonly deleting: boolean;
  readonly taintKeys: readonly string[];
}

export interface HealthAnswer {
  readonly status: 200 | 503;
  /** JSON text. */
  readonly body: string;
}

/** The monotonic clock for decisions, the wall clock for timestamps in responses. */
export interface HealthClock {
  now(): number;
  wallNow(): number;
}

/** Longest text of a failure in a response; the log has the whole text. */
const MAX_REASON = 400;

/** Go's zero time, as kube-proxy reports it before the first sync. */
const NEVER = '0001-01-01T00:00:00Z';

/**
 * Derives health from sync results: unhealthy if a requested sync has not succeeded for too long, healthy if none was
 * requested or the sync loop has not started. Each `now` is monotonic time.
 */
export class ProxyHealth {
  readonly #staleAfter: number;
  readonly #nodeName: string;
  #families: readonly IpFamily[] = [];
  /** The start of the sync loop or the last success; undefined before the start. */
  #lastUpdated: number | undefined;
  /** When the first sync since the last success was requested. */
  #oldestQueued: number | undefined;
  #node: NodeEligibility | undefined;
  #problems: readonly string[] = [];
  /** Why the last sync failed; undefined after a success. */
  #failure: string | undefined;
  /** Whether no sync can succeed, and no restart can help, until somebody changes the node. */
  #nodeUnable = false;

  /**
   * @param staleAfter milliseconds that a requested sync may be outstanding: twice the sync period
   * @param nodeName the name of our Node, for texts
   */
  constructor(staleAfter: number, nodeName = '') {
    this.#staleAfter = staleAfter;
    this.#nodeName = nodeName;
  }

  /** Must be called when the sync loop starts. Each sync covers all of these families. */
  started(families: readonly IpFamily[], now: number): void {
    this.#families = families;
    this.#lastUpdated = now;
  }

  /** Must be called when a sync is requested. */
  queued(now: number): void {
    if (this.#lastUpdated !== undefined) this.#oldestQueued ??= now;
  }

  /** Must be called when a sync has succeeded. */
  synced(now: number): void {
    this.#lastUpdated = now;
    this.#oldestQueued = undefined;
    this.#failure = undefined;
    this.#nodeUnable = false;
  }

  /**
   * Must be called when a sync has failed. `nodeUnable`: the node lacks something that neither a retry nor a restart
   * gives it, such as a kernel module. /healthz then returns 503 at once, and /livez does not, because the running
   * daemon recovers as soon as the node has it, and a restarted one would not start.
   */
  failed(reason: string, nodeUnable = false): void {
    this.#nodeUnable = nodeUnable;
    this.#failure = reason.length > MAX_REASON ? `${reason.slice(0, MAX_REASON)}...` : reason;
  }

  /** Records our Node. After its deletion, the last recorded state is kept. */
  nodeSeen(node: NodeEligibility): void {
    this.#node = node;
  }

  /** Sets problems of the node that neither syncs nor restarts repair. Responses list them; the status ignores them. */
  setProblems(problems: readonly string[]): void {
    this.#problems = problems;
  }

  healthy(now: number): boolean {
    return !this.#nodeUnable && this.#inTime(now);
  }

  #inTime(now: number): boolean {
    return this.#oldestQueued === undefined || now - this.#oldestQueued < this.#staleAfter;
  }

  /** Returns the health of the proxy alone: whether a restart could help. */
  livez(clock: HealthClock): HealthAnswer {
    return this.#answer(clock, {}, this.#nodeUnable || this.#inTime(clock.now()), undefined);
  }

  /** Returns the health of the proxy and the node: whether a load balancer should send traffic here. */
  healthz(clock: HealthClock): HealthAnswer {
    const ineligible = this.#ineligible();
    return this.#answer(clock, { nodeEligible: ineligible === undefined }, this.healthy(clock.now()), ineligible);
  }

  /** Returns why load balancers should send no traffic here; undefined if they may. */
  #ineligible(): string | undefined {
    const name = JSON.stringify(this.#nodeName);
    if (this.#node === undefined) return `no Node named ${name} has been seen: check --hostname-override`;
    if (this.#node.deleting) return `our Node ${name} is being deleted`;
    return this.#node.taintKeys.includes(TO_BE_DELETED) ? `our Node ${name} has the taint ${TO_BE_DELETED}` : undefined;
  }

  #answer(
    clock: HealthClock,
    node: { nodeEligible?: boolean },
    healthy: boolean,
    ineligible: string | undefined,
  ): HealthAnswer {
    const now = clock.now();
    // The difference between the wall clock and the monotonic clock.
    const wallLead = clock.wallNow() - now;
    const timestamp = (ms: number | undefined): string =>
      ms === undefined ? NEVER : new Date(ms + wallLead).toISOString();
    const labels = this.#families.map(familyLabel);
    const why = this.#failure ?? 'the log says why';
    const stale = `no sync of ${labels.join(' and ')} has succeeded for ${this.#staleAfter / 1000} s: ${why}`;
    const unhealthy = this.#nodeUnable ? why : stale;
    const reasons = [...(healthy ? [] : [unhealthy]), ...(ineligible === undefined ? [] : [ineligible])];
    const good = reasons.length === 0;
    const lastUpdated = timestamp(this.#lastUpdated);
    const body = {
      lastUpdated: good ? timestamp(now) : lastUpdated,
      currentTime: timestamp(now),
      ...node,
      healthy,
      ...(this.#problems.length === 0 ? {} : { problems: this.#problems }),
      status: Object.fromEntries(labels.map((label) => [label, { lastUpdated, healthy }])),
      ...(good ? {} : { reason: reasons.join('; ') }),
    };
    return { status: good ? 200 : 503, body: JSON.stringify(body) };
  }
}
