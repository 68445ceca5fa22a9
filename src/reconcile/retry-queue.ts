import { formatCidr } from '../net/cidr.ts';
import { formatOp, type Op } from '../state/op.ts';
import { formatVirtualServer } from '../state/virtual-server.ts';

interface Failing {
  readonly op: Op;
  attempts: number;
  /** Milliseconds since the epoch; undefined while the attempt is under way. */
  dueAt: number | undefined;
}

const FIRST_DELAY_MS = 1_000;

/** Objects whose last operation failed, each with its own back-off (doubling from 1 s up to `maxDelayMs`). */
export class RetryQueue {
  readonly #failing = new Map<string, Failing>();
  readonly #maxDelayMs: number;

  constructor(maxDelayMs: number) {
    this.#maxDelayMs = Math.max(maxDelayMs, FIRST_DELAY_MS);
  }

  get size(): number {
    return this.#failing.size;
  }

  failed(op: Op, now: number): void {
    const key = targetOf(op);
    const attempts = (this.#failing.get(key)?.attempts ?? 0) + 1;
    const delay = Math.min(FIRST_DELAY_MS * 2 ** Math.min(attempts - 1, 20), this.#maxDelayMs);
    this.#failing.set(key, { op, attempts, dueAt: now + delay });
  }

  /** How often in a row the object has failed: so that the log can tell the first time from the hundredth. */
  attempts(op: Op): number {
    return this.#failing.get(targetOf(op))?.attempts ?? 0;
  }

  /** The operations whose time has come; they are under way until failed() or settle() says what came of them. */
  takeDue(now: number): Op[] {
    const due: Op[] = [];
    for (const failing of this.#failing.values()) {
      if (failing.dueAt === undefined || failing.dueAt > now) continue;
      failing.dueAt = undefined;
      due.push(failing.op);
    }
    return due;
  }

  /** A sync ended well: what was under way and did not fail again is mended. */
  settle(): void {
    for (const [key, failing] of this.#failing) if (failing.dueAt === undefined) this.#failing.delete(key);
  }

  /** A sync broke off before it could tell: what was under way is due again. */
  reschedule(now: number): void {
    for (const failing of this.#failing.values()) failing.dueAt ??= now + FIRST_DELAY_MS;
  }

  nextDue(): number | undefined {
    let next: number | undefined;
    for (const { dueAt } of this.#failing.values()) {
      if (dueAt !== undefined && (next === undefined || dueAt < next)) next = dueAt;
    }
    return next;
  }
}

// The object, not the operation: an add that fails and the delete that follows are about the same one.
function targetOf(op: Op): string {
  if ('virtualServer' in op) return `virtual server ${formatVirtualServer(op.virtualServer)}`;
  if ('id' in op) return `virtual server ${formatVirtualServer(op.id)}`;
  if ('address' in op) return `address ${op.address}`;
  if ('cidr' in op) return `route ${formatCidr(op.cidr)}`;
  if ('entry' in op) return formatOp({ kind: 'add-entry', set: op.set, entry: op.entry });
  return `set ${op.set.name}`;
}
