import type { NamespacedName } from '../base/service/names.ts';
import { type Endpoint, type RealServerKey, realServerOf } from '../state/real-server.ts';
import { NO_STATS } from '../state/server-stats.ts';
import { DueQueue } from './due-queue.ts';
import {
  type ConnectResult,
  type EndpointState,
  RAMP_STEP_MS,
  type Traffic,
  UNKNOWN,
  afterConnect,
  afterLook,
  afterUnknown,
  askAt,
  awaitsLook,
  restored,
  shareOf,
} from './endpoint-state.ts';
import type { Looked } from './traffic-since.ts';
import { Turns } from './turns.ts';

/** Endpoints that may be asked within a second. */
const MOST_IN_SECOND = 100;

/** An endpoint that is checked. It is another object when the endpoint was removed and added again. */
interface Checked {
  readonly service: NamespacedName;
  readonly key: RealServerKey;
  state: EndpointState;
  asking: boolean;
  /** When the next connect is to be sent; Infinity without one. */
  dueAt: number;
}

/** An endpoint to connect to. */
export type Question = Pick<Checked, 'service' | 'key'>;

/** Why a verdict ends: an answer, a connect that this node could not send, or no answer for so long that it is on trial. */
type End = 'answer' | 'not-sent' | 'trial';

/** A verdict about an endpoint, or its end. */
export interface Verdict {
  readonly service: NamespacedName;
  readonly endpoint: Endpoint;
  /** Undefined if it begins. */
  readonly end: { readonly why: End; readonly afterMs: number } | undefined;
  /** The traffic that was counted before the verdict. */
  readonly traffic: Traffic;
}

/** Why a verdict ends if it ends with the result of a connect. */
const ENDS: Readonly<Record<ConnectResult, End>> = {
  answered: 'answer',
  refused: 'answer',
  unanswered: 'trial',
  'not-sent': 'not-sent',
};

/** An endpoint that does not answer. */
export interface SilentEndpoint {
  readonly service: NamespacedName;
  readonly endpoint: Endpoint;
  readonly since: number;
  readonly traffic: Traffic;
}

/** Decides which endpoints are silent, from counters and connects that others read and send. */
export class EndpointCheck {
  readonly #services = new Map<NamespacedName, Map<RealServerKey, Checked>>();
  /** Those that are suspected or silent: a look without traffic changes them, too. */
  readonly #doubted = new Set<Checked>();
  readonly #later = new DueQueue<Checked>();
  /** When endpoints that answer again get a larger part of their weight. */
  readonly #growing = new DueQueue<Checked>();
  /** Endpoints whose time has come. */
  readonly #due = new Turns<Checked>();
  /** When each connect of the last second was sent. */
  readonly #sent: number[] = [];

  /**
   * Replaces the endpoints of a Service; none: it is not checked any more. Those that remain keep their state.
   *
   * @param wasSilent whether an earlier run had let no new connections go to an endpoint
   */
  setEndpoints(
    service: NamespacedName,
    keys: ReadonlySet<RealServerKey>,
    now: number,
    wasSilent: (key: RealServerKey) => boolean = () => false,
  ): void {
    const before = this.#services.get(service);
    const after = new Map<RealServerKey, Checked>();
    for (const key of keys) {
      const state = wasSilent(key) ? restored(now) : UNKNOWN;
      const checked = before?.get(key) ?? { service, key, state, asking: false, dueAt: Infinity };
      after.set(key, checked);
      this.#plan(checked);
    }
    for (const [key, checked] of before ?? []) {
      if (after.has(key)) continue;
      this.#planAt(checked, Infinity);
      this.#doubted.delete(checked);
      this.#growing.delete(checked);
    }
    if (after.size === 0) this.#services.delete(service);
    else this.#services.set(service, after);
  }

  /** Must be called after each look. @param beganAt when the reading of its counters began */
  looked({ traffic, leftOut }: Looked, beganAt: number, now: number): readonly Verdict[] {
    const verdicts: Verdict[] = [];
    const doubted = [...this.#doubted];
    for (const [service, ofService] of traffic) {
      const mostAnswer = this.#mostAnswer(service);
      for (const [key, seen] of ofService) {
        const checked = this.#services.get(service)?.get(key);
        if (checked === undefined) continue;
        const { state } = checked;
        const after = seen === 'unknown' ? afterUnknown(state, now) : afterLook(state, seen, beganAt, now, mostAnswer);
        verdicts.push(...this.#change(checked, after, 'answer', now));
      }
    }
    for (const checked of doubted) {
      if (leftOut.has(checked.service) || traffic.get(checked.service)?.has(checked.key) === true) continue;
      const after = afterLook(checked.state, NO_STATS, beganAt, now);
      verdicts.push(...this.#change(checked, after, 'answer', now));
    }
    return verdicts;
  }

  /** Returns the endpoints to connect to now, one of each namespace in turn. Each needs a call of connected(). */
  takeDue(now: number): readonly Question[] {
    for (let next = this.#later.take(now); next !== undefined; next = this.#later.take(now)) this.#due.add(next);
    const taken: Checked[] = [];
    for (let room = this.#room(now); room > 0; room--) {
      const checked = this.#due.take();
      if (checked === undefined) break;
      checked.asking = true;
      this.#planAt(checked, Infinity);
      this.#sent.push(now);
      taken.push(checked);
    }
    return taken;
  }

  /** Must be called with the result of each connect. Returns the change of the verdict, if there is one. */
  connected(question: Question, result: ConnectResult, now: number): readonly Verdict[] {
    const checked = this.#services.get(question.service)?.get(question.key);
    // The endpoint may have been removed meanwhile, and added again.
    if (checked === undefined || checked !== question) return [];
    checked.asking = false;
    return this.#change(checked, afterConnect(checked.state, result, now), ENDS[result], now);
  }

  /** Whether only a look is missing for a verdict about an endpoint that was asked. */
  awaitsLook({ service, key }: Question): boolean {
    return awaitsLook(this.#services.get(service)?.get(key)?.state ?? UNKNOWN);
  }

  /** Returns the time of the next connect that is known; Infinity without one. */
  dueAt(now: number): number {
    const next = this.#due.isEmpty ? this.#later.nextAt : now;
    const [first] = this.#sent;
    return first !== undefined && this.#room(now) === 0 ? Math.max(next, first + 1000) : next;
  }

  /** Returns the part of its weight that each endpoint of a Service gets, where that is not all. */
  sharesOf(service: NamespacedName, now: number): ReadonlyMap<RealServerKey, number> {
    const shares = new Map<RealServerKey, number>();
    for (const [key, { state }] of this.#services.get(service) ?? []) {
      const share = shareOf(state, now);
      if (share < 1) shares.set(key, share);
    }
    return shares;
  }

  /** Returns the Services with an endpoint that is to get a larger part of its weight now. */
  takeGrown(now: number): ReadonlySet<NamespacedName> {
    const services = new Set<NamespacedName>();
    for (let next = this.#growing.take(now); next !== undefined; next = this.#growing.take(now)) {
      services.add(next.service);
      this.#grow(next, now);
    }
    return services;
  }

  silentOf(service: NamespacedName): ReadonlySet<RealServerKey> {
    const silent = new Set<RealServerKey>();
    for (const [key, { state }] of this.#services.get(service) ?? []) if (state.kind === 'silent') silent.add(key);
    return silent;
  }

  *silent(): IterableIterator<SilentEndpoint> {
    for (const { service, key, state } of this.#doubted) {
      if (state.kind !== 'silent') continue;
      yield { service, endpoint: realServerOf(key), since: state.since, traffic: state.traffic };
    }
  }

  counts(): Readonly<Record<EndpointState['kind'], number>> {
    const counts = { unknown: 0, trusted: 0, suspected: 0, silent: 0 };
    for (const endpoints of this.#services.values()) {
      for (const { state } of endpoints.values()) counts[state.kind] += 1;
    }
    return counts;
  }

  #plan(checked: Checked): void {
    const { kind } = checked.state;
    if (kind === 'suspected' || kind === 'silent') this.#doubted.add(checked);
    else this.#doubted.delete(checked);
    this.#planAt(checked, checked.asking ? Infinity : askAt(checked.state));
  }

  /** Does nothing if the time is the same, so that an endpoint keeps its turn. */
  #planAt(checked: Checked, at: number): void {
    if (at === checked.dueAt) return;
    checked.dueAt = at;
    this.#due.delete(checked);
    if (at === Infinity) this.#later.delete(checked);
    else this.#later.set(checked, at);
  }

  #mostAnswer(service: NamespacedName): boolean {
    const all = this.#services.get(service);
    if (all === undefined) return false;
    let trusted = 0;
    for (const { state } of all.values()) if (state.kind === 'trusted') trusted++;
    return trusted * 2 > all.size;
  }

  #grow(checked: Checked, now: number): void {
    const share = shareOf(checked.state, now);
    if (share > 0 && share < 1) this.#growing.set(checked, now + RAMP_STEP_MS);
  }

  /** Returns how many connects the budget allows. */
  #room(now: number): number {
    while (this.#sent[0] !== undefined && this.#sent[0] <= now - 1000) this.#sent.shift();
    return MOST_IN_SECOND - this.#sent.length;
  }

  #change(checked: Checked, state: EndpointState, why: End, now: number): readonly Verdict[] {
    const before = checked.state;
    checked.state = state;
    this.#plan(checked);
    const { service, key } = checked;
    const about = { service, endpoint: realServerOf(key) };
    if (before.kind !== 'silent' && state.kind === 'silent') {
      return [{ ...about, end: undefined, traffic: state.traffic }];
    }
    if (before.kind === 'silent' && state.kind !== 'silent') {
      this.#grow(checked, now);
      return [{ ...about, end: { why, afterMs: now - before.since }, traffic: before.traffic }];
    }
    return [];
  }
}
