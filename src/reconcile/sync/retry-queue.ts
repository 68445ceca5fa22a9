import { doublingDelay } from '../../base/timer.ts';
import { formatCidr } from '../../base/cidr.ts';
import { type Op, formatOp } from '../../state/op.ts';
import type { OpFailure } from '../../state/outcome.ts';
import { type VirtualServerId, formatVirtualServer } from '../../state/virtual-server.ts';

interface Failing {
  readonly failure: OpFailure;
  attempts: number;
  /** Time of the next attempt, in ms of the monotonic clock; undefined during an attempt. */
  dueAt: number | undefined;
}

const FIRST_DELAY_MS = 1_000;

/**
 * Tracks objects with failed operations, each with its own back-off (from 1 s up to `maxDelayMs`). Several failures in
 * one attempt count as one. If a change of the object causes an attempt before the retry is due, its failure does not
 * count.
 */
export class RetryQueue {
  readonly #failing = new Map<string, Failing>();
  readonly #maxDelayMs: number;

  constructor(maxDelayMs: number) {
    this.#maxDelayMs = Math.max(maxDelayMs, FIRST_DELAY_MS);
  }

  /** Records a failure. Returns whether it is the first one of the object. */
  failed(failure: OpFailure, now: number): boolean {
    const key = targetOf(failure.op);
    const known = this.#failing.get(key);
    if (known?.dueAt !== undefined) return false;
    const attempts = (known?.attempts ?? 0) + 1;
    this.#failing.set(key, { failure, attempts, dueAt: now + doublingDelay(attempts, this.#maxDelayMs) });
    return known === undefined;
  }

  /** Returns the failing operations, each with its last failure. */
  failing(): readonly { readonly failure: OpFailure; readonly attempts: number }[] {
    return [...this.#failing.values()];
  }

  attempts(op: Op): number {
    return this.#failing.get(targetOf(op))?.attempts ?? 0;
  }

  /** Whether the last operation on this virtual server, or one on its real servers, has failed. */
  isFailing(id: VirtualServerId): boolean {
    return this.#failing.size > 0 && this.#failing.has(serverTarget(id));
  }

  /** Returns the operations that are due for a retry. */
  due(now: number): Op[] {
    return Array.from(this.#failing.values())
      .filter(({ dueAt }) => dueAt !== undefined && dueAt <= now)
      .map(({ failure }) => failure.op);
  }

  /** Marks the start of another attempt; failed(), settle() or reschedule() ends it. */
  begin(op: Op): void {
    const failing = this.#failing.get(targetOf(op));
    if (failing !== undefined) failing.dueAt = undefined;
  }

  /** Must be called after a sync that attempted `tried` succeeded. Removes those that did not fail again. */
  settle(tried: readonly Op[]): void {
    for (const key of tried.map(targetOf)) {
      const failing = this.#failing.get(key);
      if (failing !== undefined && failing.dueAt === undefined) this.#failing.delete(key);
    }
  }

  /** Must be called after a sync that attempted `tried` was aborted. Schedules another attempt. */
  reschedule(tried: readonly Op[], now: number): void {
    for (const key of tried.map(targetOf)) {
      const failing = this.#failing.get(key);
      if (failing !== undefined) failing.dueAt ??= now + FIRST_DELAY_MS;
    }
  }

  /** Time of the next attempt; Infinity if none is due. */
  get dueAt(): number {
    let next = Infinity;
    for (const { dueAt = Infinity } of this.#failing.values()) next = Math.min(next, dueAt);
    return next;
  }
}

// Identifies the object, not the operation: a failed add and the delete that follows have the same target.
function targetOf(op: Op): string {
  if ('virtualServer' in op) return serverTarget(op.virtualServer);
  if ('id' in op) return serverTarget(op.id);
  if ('address' in op) return `address ${op.address}`;
  if ('cidr' in op) return `route ${formatCidr(op.cidr)}`;
  if ('entry' in op) return formatOp({ kind: 'add-entry', set: op.set, entry: op.entry });
  return `set ${op.set.name}`;
}

function serverTarget(id: VirtualServerId): string {
  return `virtual server ${formatVirtualServer(id)}`;
}
