import { firstFew } from '../../base/first-few.ts';
import type { IpFamily } from '../../base/ip.ts';
import { toolCommand } from '../../explain/tool-command.ts';
import type { SyncText } from '../../explain/replies.ts';
import type { Clock } from '../../reconcile/clock.ts';
import type { SyncKind, SyncReport } from '../../state/sync-report.ts';

/** A repair of what another program changed. */
interface Repair {
  /** Monotonic time in milliseconds. */
  readonly at: number;
  /** The command that repairs it, or for a setting a sentence. */
  readonly command: string;
}

const MAKE_DEVICE = 'ip link add kube-ipvs0 type dummy';
const HOUR_MS = 3_600_000;
/** Maximum number of repairs to keep. Further ones are only counted. */
const MOST_REPAIRS = 20;

/** Keeps recent events of the daemon for the subcommand status, in bounded memory. */
export class History {
  readonly #clock: Pick<Clock, 'now' | 'wallNow'>;
  readonly #last = new Map<SyncKind, SyncText>();
  #repairs: Repair[] = [];
  /** Number and end of the syncs that repaired, within the last hour. */
  #counts: { readonly at: number; readonly repairs: number }[] = [];
  #lastEventAt: number | undefined;

  constructor(clock: Pick<Clock, 'now' | 'wallNow'>) {
    this.#clock = clock;
  }

  /** Must be called when an event of the API was applied. */
  eventApplied(): void {
    this.#lastEventAt = this.#clock.now();
  }

  /** Must be called when a sync has ended. */
  finished({ kind, ok, error, durationMs, drift, node }: SyncReport): void {
    const now = this.#clock.now();
    const text = { endedAt: this.timeText(now), seconds: Math.round(durationMs) / 1000, ok };
    this.#last.set(kind, { ...text, ...(error === undefined ? {} : { error: error.message }) });
    const ofNode = kind === 'full' ? [...(node.deviceMade ? [MAKE_DEVICE] : []), ...node.settingsRepaired] : [];
    this.#repaired([...ofNode, ...drift.slice(0, MOST_REPAIRS).map(toolCommand)], ofNode.length + drift.length);
  }

  /** Must be called when iptables rules that another process removed or changed were restored. */
  rulesRepaired(family: IpFamily, chains: readonly string[]): void {
    this.#repaired([`${family === 4 ? 'iptables' : 'ip6tables'}-restore: ${firstFew(chains).join(', ')}`], 1);
  }

  last(kind: SyncKind): SyncText | undefined {
    return this.#last.get(kind);
  }

  get lastEventAt(): string | undefined {
    return this.#lastEventAt === undefined ? undefined : this.timeText(this.#lastEventAt);
  }

  /** The repairs of the last hour, the latest first. */
  get repairs(): {
    readonly count: number;
    readonly first: readonly { readonly at: string; readonly command: string }[];
  } {
    return {
      count: this.#recent(this.#counts).reduce((sum, { repairs }) => sum + repairs, 0),
      first: this.#recent(this.#repairs).map(({ at, command }) => ({ at: this.timeText(at), command })),
    };
  }

  /** Returns a monotonic time as people read it. */
  timeText(at: number): string {
    return new Date(at + this.#clock.wallNow() - this.#clock.now()).toISOString();
  }

  #repaired(commands: readonly string[], repairs: number): void {
    if (repairs === 0) return;
    const at = this.#clock.now();
    const named = commands.map((command): Repair => ({ at, command }));
    this.#repairs = [...named, ...this.#repairs].slice(0, MOST_REPAIRS);
    this.#counts = [{ at, repairs }, ...this.#recent(this.#counts)];
  }

  #recent<T extends { readonly at: number }>(items: readonly T[]): T[] {
    const since = this.#clock.now() - HOUR_MS;
    return items.filter(({ at }) => at >= since);
  }
}
