import { createHash, randomInt } from 'node:crypto';
import { RateLimit } from '../base/rate-limit.ts';
import type { Log } from './log/log.ts';

/** The object that an Event refers to. */
export interface EventSubject {
  readonly kind: 'Node' | 'Service';
  /** "" for a Node. */
  readonly namespace: string;
  readonly name: string;
}

export interface EventText {
  readonly type: 'Normal' | 'Warning';
  /** In CamelCase, such as "Starting". */
  readonly reason: string;
  readonly action: string;
  readonly note: string;
  /**
   * Whether all nodes report the same, except for numbers in the note: they then share one Event, which is not
   * counted. Each node waits before it writes: long enough to withdraw a short state, and then a random time.
   */
  readonly shared?: boolean;
}

/** The desired state of an Event in the API; times in milliseconds since 1970. */
export interface OutgoingEvent {
  readonly name: string;
  readonly subject: EventSubject;
  readonly text: EventText;
  readonly firstAt: number;
  readonly lastAt: number;
  /** Number of occurrences. If it is above 1, the Event has a series. */
  readonly count: number;
}

/** done: written; gone: the Event has expired; later: the API is unavailable or busy; never: refused, with `reason`. */
export type Delivery =
  { readonly result: 'done' | 'gone' | 'later' } | { readonly result: 'never'; readonly reason: string };

/** Writes Events; neither method rejects. */
export interface EventSink {
  create(event: OutgoingEvent, signal: AbortSignal): Promise<Delivery>;
  /** Updates count and time; the rest of an Event is immutable. */
  update(event: OutgoingEvent, signal: AbortSignal): Promise<Delivery>;
}

export interface EventsOptions {
  readonly sink: EventSink;
  readonly log: Log;
  readonly clock: {
    /** Milliseconds of the monotonic clock. */
    now(): number;
    /** Milliseconds since 1970. */
    wallNow(): number;
    setTimer(callback: () => void, ms: number): () => void;
  };
  /** Returns a number from 0 to 1. */
  readonly random?: () => number;
}

/** Maximum number of different events in memory; more are dropped. */
const MOST = 200;
/** Of those, the maximum of one namespace, so that its events can neither displace nor delay those of others. */
const MOST_OF_NAMESPACE = 20;
/** An event that has not occurred for an hour is forgotten, as in the API server. */
const FORGET_AFTER_MS = 3_600_000;
/** Minimum time between two updates of a recurring Event. */
const UPDATE_EVERY_MS = 300_000;
/** Of requests: thousands of nodes may report the same problem at once. */
const REQUESTS = { burst: 25, qps: 0.1 };
/** Attempts per Event while the API is unavailable, with exponential back-off from one second. */
const ATTEMPTS = 5;
const FIRST_BACKOFF_MS = 1_000;
/** Delay of a shared Event: at least SETTLE_MS, and up to SPREAD_MS more. */
const SETTLE_MS = 30_000;
const SPREAD_MS = 60_000;
const MAX_NAME = 253;

/** An Event with its recurrences. Times are those of the monotonic clock. */
interface Series {
  event: OutgoingEvent;
  seenAt: number;
  /** The count that the API server has; 0 before the Event is created. */
  sentCount: number;
  dueAt: number;
  attempts: number;
}

/** Aggregates recurring events, sends them one by one, and drops them if the API server stays unavailable. */
export class Events {
  readonly #options: EventsOptions;
  readonly #series = new Map<string, Series>();
  readonly #abort = new AbortController();
  readonly #refusals = new Set<string>();
  readonly #limit: RateLimit;
  #notBefore = 0;
  #sending = false;
  #closing = false;
  #cancelTimer: () => void = () => {};
  #onIdle: (() => void) | undefined;

  constructor(options: EventsOptions) {
    this.#options = options;
    this.#limit = new RateLimit(REQUESTS, options.clock.now());
  }

  /** Queues an Event; never blocks. */
  record(subject: EventSubject, text: EventText): void {
    if (this.#closing) return;
    const { clock } = this.#options;
    const now = clock.now();
    const wallNow = clock.wallNow();
    const { kind, namespace, name } = subject;
    const key = [kind, namespace, name, text.type, text.reason, text.action, commonNote(text)].join(' ');
    const stored = this.#series.get(key);
    if (stored !== undefined && hasExpired(stored, now)) this.#series.delete(key);
    const known = this.#series.get(key);
    if (known !== undefined) {
      const { count } = known.event;
      known.seenAt = now;
      known.event = { ...known.event, text, lastAt: wallNow, count: text.shared === true ? count : count + 1 };
    } else if (this.#hasRoom(namespace, now)) {
      const times = { firstAt: wallNow, lastAt: wallNow };
      const event = { name: nameOf(subject, text, wallNow), subject, text, ...times, count: 1 };
      const delay = text.shared === true ? SETTLE_MS + (this.#options.random ?? Math.random)() * SPREAD_MS : 0;
      this.#series.set(key, { event, seenAt: now, sentCount: 0, dueAt: now + delay, attempts: 0 });
    } else {
      this.#options.log.debug(2, 'too many different events: dropped one', { reason: text.reason });
    }
    this.#schedule();
  }

  /** Drops Events with these reasons that were not written yet. */
  withdraw({ kind, namespace, name }: EventSubject, reasons: ReadonlySet<string>): void {
    for (const [key, { event, sentCount }] of this.#series) {
      const { subject, text } = event;
      const isMeant = subject.kind === kind && subject.namespace === namespace && subject.name === name;
      if (isMeant && sentCount === 0 && reasons.has(text.reason)) this.#series.delete(key);
    }
    this.#schedule();
  }

  /** Sends queued Events for at most `graceMs`, then stops. */
  async close(graceMs: number): Promise<void> {
    this.#closing = true;
    for (const series of this.#series.values()) series.dueAt = 0;
    const { promise, resolve } = Promise.withResolvers<void>();
    this.#onIdle = resolve;
    const cancel = this.#options.clock.setTimer(resolve, graceMs);
    this.#schedule();
    await promise;
    cancel();
    this.#cancelTimer();
    this.#abort.abort();
  }

  #hasRoom(namespace: string, now: number): boolean {
    let ofNamespace = 0;
    for (const [key, { seenAt, event }] of this.#series) {
      if (now - seenAt > FORGET_AFTER_MS) this.#series.delete(key);
      else if (event.subject.namespace === namespace) ofNamespace += 1;
    }
    return this.#series.size < MOST && ofNamespace < MOST_OF_NAMESPACE;
  }

  #schedule(): void {
    this.#cancelTimer();
    if (this.#sending || this.#abort.signal.aborted) return;
    const next = this.#next();
    if (next === undefined) {
      this.#onIdle?.();
      return;
    }
    const { clock } = this.#options;
    const now = clock.now();
    const dueAt = Math.max(next[1].dueAt, this.#notBefore, now + this.#limit.waitMs(now));
    this.#cancelTimer = clock.setTimer(() => void this.#send(next), Math.max(0, dueAt - now));
  }

  #next(): [string, Series] | undefined {
    let first: [string, Series] | undefined;
    for (const entry of this.#series) {
      const [, { event, sentCount, dueAt }] = entry;
      if (event.count > sentCount && (first === undefined || dueAt < first[1].dueAt)) first = entry;
    }
    return first;
  }

  async #send([key, series]: [string, Series]): Promise<void> {
    const { sink, clock } = this.#options;
    const { event, sentCount } = series;
    const { signal } = this.#abort;
    this.#sending = true;
    this.#limit.take(clock.now());
    const delivery = sentCount === 0 ? await sink.create(event, signal) : await sink.update(event, signal);
    this.#sending = false;
    if (signal.aborted) return;
    this.#settle(key, series, event, delivery);
    this.#schedule();
  }

  #settle(key: string, series: Series, sent: OutgoingEvent, delivery: Delivery): void {
    const { clock } = this.#options;
    const now = clock.now();
    switch (delivery.result) {
      case 'done':
        series.sentCount = sent.count;
        series.attempts = 0;
        series.dueAt = this.#closing ? 0 : now + (sent.text.shared === true ? FORGET_AFTER_MS : UPDATE_EVERY_MS);
        return;
      case 'gone': {
        const firstAt = clock.wallNow();
        series.sentCount = 0;
        series.event = { ...series.event, name: nameOf(sent.subject, sent.text, firstAt), firstAt, count: 1 };
        return;
      }
      case 'later':
        series.attempts += 1;
        this.#notBefore = now + FIRST_BACKOFF_MS * 2 ** (series.attempts - 1);
        if (series.attempts >= ATTEMPTS)
          this.#drop(key, sent, `the API server was unavailable or busy in ${ATTEMPTS} attempts`);
        return;
      case 'never':
        this.#drop(key, sent, delivery.reason);
    }
  }

  /** Drops an Event. Warns once for each cause. */
  #drop(key: string, { text, subject }: OutgoingEvent, reason: string): void {
    this.#series.delete(key);
    const what = { reason: text.reason, object: `${subject.kind} ${subject.name}` };
    if (this.#refusals.has(reason)) this.#options.log.debug(2, `dropped an Event: ${reason}`, what);
    else this.#options.log.warn(`failed to write an Event to the API server, dropped it: ${reason}`, what);
    if (this.#refusals.size < MOST) this.#refusals.add(reason);
  }
}

/** Whether the API server no longer has this shared Event, so that it must be created again if it occurs. */
function hasExpired({ event, sentCount, dueAt }: Series, now: number): boolean {
  return event.text.shared === true && sentCount > 0 && now >= dueAt;
}

/** Returns the part of the note that tells two shared Events with the same reason apart. */
function commonNote({ shared, note }: EventText): string {
  return shared === true ? note.replaceAll(/\d+/g, '') : '';
}

/** Returns a name that is unique per node, or equal on all nodes for a shared Event. */
function nameOf(subject: EventSubject, text: EventText, wallNow: number): string {
  const suffix =
    text.shared === true
      ? createHash('sha256')
          .update(`${text.reason}\n${commonNote(text)}`)
          .digest('hex')
          .slice(0, 16)
      : (BigInt(Math.trunc(wallNow)) * 1_000_000n + BigInt(randomInt(1_000_000))).toString(16);
  return `${subject.name.slice(0, MAX_NAME - 1 - suffix.length)}.${suffix}`;
}
