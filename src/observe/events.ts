import { createHash, randomInt } from 'node:crypto';
import type { Log } from './log.ts';

/** What an Event is about. */
export interface EventSubject {
  readonly kind: 'Node' | 'Service';
  /** "" for a Node. */
  readonly namespace: string;
  readonly name: string;
}

export interface EventText {
  readonly type: 'Normal' | 'Warning';
  /** CamelCase, for machines. */
  readonly reason: string;
  /** What was being done. */
  readonly action: string;
  /** For people. */
  readonly note: string;
  /** Every node of the cluster says the same: it becomes one Event, whoever is first, and not all nodes speak at once. */
  readonly shared?: boolean;
}

/** Tells whoever reads the Events of an object; never waits for anything. */
export interface EventRecorder {
  record(subject: EventSubject, text: EventText): void;
}

/** An Event as it should be in the API now; times in milliseconds since 1970. */
export interface OutgoingEvent {
  /** metadata.name */
  readonly name: string;
  readonly subject: EventSubject;
  readonly text: EventText;
  readonly firstAt: number;
  readonly lastAt: number;
  /** How often it happened; above 1 it is a series. */
  readonly count: number;
}

/** done: it is there; gone: it was there and has expired; later: the API is away or busy; never: it is refused, with the reason. */
export type Delivery =
  { readonly result: 'done' | 'gone' | 'later' } | { readonly result: 'never'; readonly reason: string };

/** Where Events go; neither rejects. */
export interface EventSink {
  create(event: OutgoingEvent, signal: AbortSignal): Promise<Delivery>;
  /** Count and time of one that was created; the rest of an Event cannot change. */
  update(event: OutgoingEvent, signal: AbortSignal): Promise<Delivery>;
}

export interface EventsOptions {
  readonly sink: EventSink;
  readonly log: Log;
  readonly clock: { now(): number; setTimer(callback: () => void, ms: number): () => void };
  /** From 0 to 1. */
  readonly random?: () => number;
}

/** Different events that are remembered; what comes while there are so many is dropped. */
const MOST = 200;
/** What has not happened for so long is forgotten: the API server forgets Events after an hour too. */
const FORGET_AFTER_MS = 3_600_000;
/** An Event that happens again and again is updated no more often than this. */
const UPDATE_EVERY_MS = 300_000;
/** Requests at once, and then one in so many milliseconds: thousands of nodes may have the same trouble. */
const BURST = 25;
const REFILL_MS = 10_000;
/** How many times an Event is tried while the API is away, first after a second, each time twice as late. */
const ATTEMPTS = 5;
const FIRST_BACKOFF_MS = 1_000;
const SPREAD_MS = 60_000;
const MAX_NAME = 253;

interface Series {
  event: OutgoingEvent;
  /** 0: not created yet. */
  sentCount: number;
  dueAt: number;
  attempts: number;
}

/** Makes one Event of what happens often, sends what is due one by one, and gives up rather than pile up. */
export class Events implements EventRecorder {
  readonly #options: EventsOptions;
  readonly #series = new Map<string, Series>();
  readonly #abort = new AbortController();
  readonly #refusals = new Set<string>();
  #tokens = BURST;
  #refilledAt: number;
  #notBefore = 0;
  #sending = false;
  #closing = false;
  #cancelTimer: () => void = () => {};
  #onIdle: (() => void) | undefined;

  constructor(options: EventsOptions) {
    this.#options = options;
    this.#refilledAt = options.clock.now();
  }

  record(subject: EventSubject, text: EventText): void {
    if (this.#closing) return;
    const now = this.#options.clock.now();
    const key = [subject.kind, subject.namespace, subject.name, text.type, text.reason, text.action].join(' ');
    const known = this.#series.get(key);
    if (known !== undefined) {
      const { count } = known.event;
      known.event = { ...known.event, text, lastAt: now, count: text.shared === true ? count : count + 1 };
    } else if (this.#hasRoom(now)) {
      const event = { name: nameOf(subject, text, now), subject, text, firstAt: now, lastAt: now, count: 1 };
      const delay = text.shared === true ? (this.#options.random ?? Math.random)() * SPREAD_MS : 0;
      this.#series.set(key, { event, sentCount: 0, dueAt: now + delay, attempts: 0 });
    } else {
      this.#options.log.debug(2, 'too many different events: one is dropped', { reason: text.reason });
    }
    this.#schedule();
  }

  /** Sends what is there, but for no longer than `graceMs`; nothing is sent after that. */
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

  #hasRoom(now: number): boolean {
    if (this.#series.size < MOST) return true;
    for (const [key, { event }] of this.#series) if (now - event.lastAt > FORGET_AFTER_MS) this.#series.delete(key);
    return this.#series.size < MOST;
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
    const dueAt = Math.max(next[1].dueAt, this.#notBefore, this.#tokenAt(clock.now()));
    this.#cancelTimer = clock.setTimer(() => void this.#send(next), Math.max(0, dueAt - clock.now()));
  }

  #next(): [string, Series] | undefined {
    let first: [string, Series] | undefined;
    for (const entry of this.#series) {
      const [, { event, sentCount, dueAt }] = entry;
      if (event.count > sentCount && (first === undefined || dueAt < first[1].dueAt)) first = entry;
    }
    return first;
  }

  /** When there is leave for one more request. */
  #tokenAt(now: number): number {
    const refilled = Math.floor((now - this.#refilledAt) / REFILL_MS);
    this.#refilledAt += refilled * REFILL_MS;
    this.#tokens = Math.min(BURST, this.#tokens + refilled);
    return this.#tokens > 0 ? now : this.#refilledAt + REFILL_MS;
  }

  async #send([key, series]: [string, Series]): Promise<void> {
    const { sink, clock } = this.#options;
    const { event, sentCount } = series;
    const { signal } = this.#abort;
    this.#sending = true;
    this.#tokens -= 1;
    const delivery = sentCount === 0 ? await sink.create(event, signal) : await sink.update(event, signal);
    this.#sending = false;
    if (signal.aborted) return;
    this.#settle(key, series, event, delivery, clock.now());
    this.#schedule();
  }

  #settle(key: string, series: Series, sent: OutgoingEvent, delivery: Delivery, now: number): void {
    switch (delivery.result) {
      case 'done':
        series.sentCount = sent.count;
        series.attempts = 0;
        series.dueAt = this.#closing ? 0 : now + UPDATE_EVERY_MS;
        return;
      case 'gone':
        series.sentCount = 0;
        series.event = { ...series.event, name: nameOf(sent.subject, sent.text, now), firstAt: now, count: 1 };
        return;
      case 'later':
        series.attempts += 1;
        this.#notBefore = now + FIRST_BACKOFF_MS * 2 ** (series.attempts - 1);
        if (series.attempts >= ATTEMPTS) this.#drop(key, sent, 'the API server is away');
        return;
      case 'never':
        this.#drop(key, sent, delivery.reason);
    }
  }

  /** Said once for each cause: an Event is never worth a log full of complaints. */
  #drop(key: string, { text, subject }: OutgoingEvent, reason: string): void {
    this.#series.delete(key);
    const what = { reason: text.reason, object: `${subject.kind} ${subject.name}` };
    if (this.#refusals.has(reason)) this.#options.log.debug(2, `an event was dropped: ${reason}`, what);
    else this.#options.log.warn(`an event could not be written, and is dropped: ${reason}`, what);
    if (this.#refusals.size < MOST) this.#refusals.add(reason);
  }
}

/** No two nodes may choose the same name, unless they say the same. */
function nameOf(subject: EventSubject, text: EventText, now: number): string {
  const suffix =
    text.shared === true
      ? createHash('sha256').update(`${text.reason}\n${text.note}`).digest('hex').slice(0, 16)
      : (BigInt(now) * 1_000_000n + BigInt(randomInt(1_000_000))).toString(16);
  return `${subject.name.slice(0, MAX_NAME - 1 - suffix.length)}.${suffix}`;
}
