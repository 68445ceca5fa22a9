import type { IpFamily } from '../../base/ip.ts';
import type { NamespacedName } from '../../base/service/names.ts';
import type { ProxyMode } from '../../base/proxy-mode.ts';
import type { OwnerOf } from '../../explain/difference/op-owner.ts';
import type { RepairReply, SyncText } from '../../explain/replies.ts';
import { type Words, wordsOf } from '../../explain/words.ts';
import type { Clock } from '../../reconcile/timing/clock.ts';
import type { Op } from '../../state/op.ts';
import type { SyncKind, SyncReport } from '../../state/sync-report.ts';

/** A repair of what another program changed. */
interface Repair {
  /** Monotonic time in milliseconds. */
  readonly at: number;
  /** The command that repairs it, or for a setting a sentence. */
  readonly command: string;
  /** Absent if no operation repaired it. */
  readonly op?: Op;
}

const HOUR_MS = 3_600_000;
/**
 * Maximum number of Services whose last change is kept. A list of more Services is not recorded as a change of each.
 */
const MOST_CHANGED = 1_000;
/** Maximum number of repairs to keep. Further ones are only counted. */
const MOST_REPAIRS = 20;

/** Keeps recent events of the daemon for the subcommand status, in bounded memory. */
export class History {
  readonly #clock: Pick<Clock, 'now' | 'wallNow'>;
  readonly #words: Words;
  readonly #last = new Map<SyncKind, SyncText>();
  #repairs: Repair[] = [];
  /** For each sync of the last hour with repairs, when it ended and how many it made. */
  #counts: { readonly at: number; readonly repairs: number }[] = [];
  #lastEventAt: number | undefined;
  /** The time of each Service's last change, the latest at the end. */
  readonly #changedAt = new Map<NamespacedName, number>();

  constructor(clock: Pick<Clock, 'now' | 'wallNow'>, mode: ProxyMode) {
    this.#clock = clock;
    this.#words = wordsOf(mode);
  }

  /** Must be called when an event of the API was applied. */
  eventApplied(): void {
    this.#lastEventAt = this.#clock.now();
  }

  /** Must be called when Services or their slices have changed. */
  changed(services: ReadonlySet<NamespacedName>): void {
    if (services.size > MOST_CHANGED) return;
    const now = this.#clock.now();
    for (const service of services) {
      this.#changedAt.delete(service);
      this.#changedAt.set(service, now);
    }
    for (const service of this.#changedAt.keys()) {
      if (this.#changedAt.size <= MOST_CHANGED) return;
      this.#changedAt.delete(service);
    }
  }

  /** Must be called when a sync has ended. */
  finished({ kind, ok, error, durationMs, drift, node }: SyncReport): void {
    const now = this.#clock.now();
    const text = { endedAt: this.timeText(now), seconds: Math.round(durationMs) / 1000, ok };
    this.#last.set(kind, { ...text, ...(error === undefined ? {} : { error: error.message }) });
    const ofNode =
      kind === 'full' ? [...(node.deviceMade ? [this.#words.deviceMade] : []), ...node.settingsRepaired] : [];
    const named = drift.slice(0, MOST_REPAIRS).map((op) => ({ command: this.#words.command(op), op }));
    this.#repaired([...ofNode.map((command) => ({ command })), ...named], ofNode.length + drift.length);
  }

  /** Must be called when rules that another process removed or changed were restored. */
  rulesRepaired(family: IpFamily, chains: readonly string[]): void {
    this.#repaired([{ command: this.#words.rulesRestored(family, chains) }], 1);
  }

  last(kind: SyncKind): SyncText | undefined {
    return this.#last.get(kind);
  }

  get lastEventAt(): string | undefined {
    return this.#lastEventAt === undefined ? undefined : this.timeText(this.#lastEventAt);
  }

  /** The repairs of the last hour, the latest first. */
  get repairs(): { readonly count: number; readonly first: readonly RepairReply[] } {
    return {
      count: this.#recent(this.#counts).reduce((sum, { repairs }) => sum + repairs, 0),
      first: this.#recent(this.#repairs).map(this.#repairReply),
    };
  }

  /** Returns when a Service last changed, and its repairs among the latest repairs of all objects. */
  ofService(
    service: NamespacedName,
    ownerOf: OwnerOf,
  ): { readonly changedAt?: string; readonly repairs: RepairReply[] } {
    const changedAt = this.#changedAt.get(service);
    const own = this.#recent(this.#repairs).filter(({ op }) => op !== undefined && ownerOf(op) === service);
    return {
      ...(changedAt === undefined ? {} : { changedAt: this.timeText(changedAt) }),
      repairs: own.map(this.#repairReply),
    };
  }

  readonly #repairReply = ({ at, command }: Repair): RepairReply => ({ at: this.timeText(at), command });

  /** Returns a monotonic time as people read it. */
  timeText(at: number): string {
    return new Date(at + this.#clock.wallNow() - this.#clock.now()).toISOString();
  }

  #repaired(repaired: readonly Omit<Repair, 'at'>[], repairs: number): void {
    if (repairs === 0) return;
    const at = this.#clock.now();
    const named = repaired.map((each): Repair => ({ ...each, at }));
    this.#repairs = [...named, ...this.#repairs].slice(0, MOST_REPAIRS);
    this.#counts = [{ at, repairs }, ...this.#recent(this.#counts)];
  }

  #recent<T extends { readonly at: number }>(items: readonly T[]): T[] {
    const since = this.#clock.now() - HOUR_MS;
    return items.filter(({ at }) => at >= since);
  }
}
