import { doublingDelay } from '../../base/timer.ts';
import type { Clock } from './clock.ts';
import type { NextRun, RequestedSync } from './sync-timer.ts';
import type { SyncKind } from '../../state/sync-report.ts';

/** Decides which kind of sync runs next, and when. */
export class Schedule {
  readonly #clock: Pick<Clock, 'now'>;
  readonly #syncPeriodMs: number;
  #started = false;
  #fullCheckDueAt = 0;
  #failures = 0;

  constructor(clock: Pick<Clock, 'now'>, syncPeriodMs: number) {
    this.#clock = clock;
    this.#syncPeriodMs = syncPeriodMs;
  }

  /** Whether the first sync has succeeded. */
  get started(): boolean {
    return this.#started;
  }

  /** Time of the next full check; Infinity while one runs. */
  get fullCheckDueAt(): number {
    return this.#fullCheckDueAt;
  }

  kindOf(wanted: RequestedSync): SyncKind {
    if (!this.#started) return 'first';
    return wanted === 'full' || this.#clock.now() >= this.#fullCheckDueAt ? 'full' : 'change';
  }

  requireFullCheck(ms: number): void {
    this.#fullCheckDueAt = Math.min(this.#fullCheckDueAt, this.#clock.now() + ms);
  }

  /** Must be called when a full check begins. Later requests for a full check cause another one after it. */
  fullCheckBegins(): void {
    this.#fullCheckDueAt = Infinity;
  }

  fullCheckEnded(): void {
    this.requireFullCheck(this.#syncPeriodMs);
  }

  succeeded(kind: SyncKind): void {
    // A change sync in the middle of a full check does not prove that the rest of the check succeeds.
    if (kind !== 'change') this.#failures = 0;
    if (kind === 'first') this.#started = true;
  }

  /** Must be called after a failed sync. Only a full check finds out which of its operations were applied. */
  failed(): void {
    this.#failures += 1;
    this.#fullCheckDueAt = 0;
  }

  /** Returns the next full check or, if sooner, the change sync due at `changeDueAt` (Infinity if none is due). */
  next(changeDueAt: number): NextRun {
    if (this.#failures > 0) return { wanted: 'full', inMs: doublingDelay(this.#failures, this.#syncPeriodMs) };
    const wanted = changeDueAt < this.#fullCheckDueAt ? 'change' : 'full';
    return { wanted, inMs: Math.max(0, Math.min(changeDueAt, this.#fullCheckDueAt) - this.#clock.now()) };
  }
}
