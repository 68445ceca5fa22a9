import type { VirtualServerStats } from '../state/server-stats.ts';
import { counted } from '../base/text/counted.ts';
import { unreachable } from '../base/unreachable.ts';

/** What IPVS has forwarded to an endpoint, and what came back from it, in some time. */
export type Traffic = Pick<VirtualServerStats, 'connections' | 'incomingPackets' | 'outgoingPackets'>;

export const NO_TRAFFIC: Traffic = { connections: 0, incomingPackets: 0, outgoingPackets: 0 };

/** The result of a TCP connect from this node. `not-sent`: this node could not send it, so that it says nothing. */
export type ConnectResult = 'answered' | 'refused' | 'unanswered' | 'not-sent';

/** Earlier verdicts about an endpoint: one that is silent again and again must answer more often before it is trusted. */
interface Past {
  readonly verdicts: number;
  readonly lastAt: number;
}

/** What is known of an endpoint. Times are in ms of the monotonic clock. */
export type EndpointState = { readonly past: Past } & (
  | {
      readonly kind: 'trusted';
      /** Before this time, it is not suspected. */
      readonly suspectFrom: number;
      /** How long it is not suspected after the next connect that it answers. */
      readonly pauseMs: number;
    }
  | {
      readonly kind: 'suspected';
      readonly since: number;
      readonly traffic: Traffic;
      /** When the last read of its counters began; the first one had ended at `since`. */
      readonly lookedAt: number;
      readonly unanswered: number;
      readonly pauseMs: number;
    }
  | {
      readonly kind: 'silent';
      readonly since: number;
      readonly traffic: Traffic;
      /** Unanswered connects since the verdict. */
      readonly unanswered: number;
      /** Connects in a row that it has answered since the verdict, and must answer to be trusted. */
      readonly answered: number;
      readonly needed: number;
      readonly askAt: number;
    }
);

/** The kernel sums up its counters so often (net/netfilter/ipvs/ip_vs_est.c). */
export const COUNTED_EVERY_MS = 2_000;
/** Unanswered connects that make a suspect silent. */
const UNANSWERED_TO_JUDGE = 2;
const ASK_AGAIN_MS = 2_000;
const SLOWEST_MS = 30_000;
/** So many connects after a verdict are ASK_AGAIN_MS apart; then the time between them doubles, up to SLOWEST_MS. */
const QUICK_ASKS = 5;
/** Verdicts so long ago no longer count. */
const FORGET_MS = 600_000;
const MOST_NEEDED = 7;

const INNOCENT: Past = { verdicts: 0, lastAt: -Infinity };

export const TRUSTED: EndpointState = {
  kind: 'trusted',
  suspectFrom: -Infinity,
  pauseMs: ASK_AGAIN_MS,
  past: INNOCENT,
};

/** The state of an endpoint to which an earlier run of this program had let no new connections go: it is asked at once. */
export function restored(now: number): EndpointState {
  const past = { verdicts: 1, lastAt: now };
  return { kind: 'silent', since: now, traffic: NO_TRAFFIC, unanswered: 0, answered: 0, needed: 1, askAt: now, past };
}

/** Returns when to connect to the endpoint next; Infinity: not before something else is known. */
export function askAt(state: EndpointState): number {
  switch (state.kind) {
    case 'trusted':
      return Infinity;
    case 'suspected':
      return state.unanswered < UNANSWERED_TO_JUDGE ? state.since : Infinity;
    case 'silent':
      return state.askAt;
    default:
      return unreachable(state);
  }
}

/** Whether only a read of the counters is missing for a verdict. */
export function awaitsLook(state: EndpointState): boolean {
  return state.kind === 'suspected' && state.unanswered >= UNANSWERED_TO_JUDGE;
}

/**
 * Returns the state after a read of the counters.
 *
 * @param traffic since the previous read
 * @param beganAt when the read began
 */
export function afterLook(state: EndpointState, traffic: Traffic, beganAt: number, now: number): EndpointState {
  switch (state.kind) {
    case 'trusted':
      if (!isDoubtful(traffic)) return traffic.outgoingPackets > 0 ? withoutPause(state) : state;
      if (now < state.suspectFrom) return state;
      return suspected(state, traffic, beganAt, now);
    case 'suspected':
      if (traffic.outgoingPackets > 0)
        return { kind: 'trusted', suspectFrom: now, pauseMs: state.pauseMs, past: state.past };
      return judged({ ...state, traffic: sum(state.traffic, traffic), lookedAt: beganAt }, now);
    case 'silent':
      // Its open connections are answered.
      return traffic.outgoingPackets > 0 ? afterAnswer(state, now) : state;
    default:
      return unreachable(state);
  }
}

/** Returns the state after a connect. */
export function afterConnect(state: EndpointState, result: ConnectResult, now: number): EndpointState {
  if (state.kind === 'trusted') return state;
  if (result === 'not-sent') return trusted(state.past, now + ASK_AGAIN_MS);
  const isAlive = result !== 'unanswered';
  if (state.kind === 'suspected') {
    return isAlive ? cleared(state, now) : judged({ ...state, unanswered: state.unanswered + 1 }, now);
  }
  if (isAlive) return afterAnswer(state, now);
  const unanswered = state.unanswered + 1;
  const pause = Math.min(SLOWEST_MS, ASK_AGAIN_MS * 2 ** Math.max(0, unanswered - QUICK_ASKS));
  return { ...state, unanswered, answered: 0, askAt: now + pause };
}

/**
 * Whether fewer packets came back than connections began: an answered connection has several. The endpoint may have stopped
 * answering in the midst of the time that was counted.
 */
function isDoubtful({ connections, incomingPackets, outgoingPackets }: Traffic): boolean {
  return incomingPackets > 0 && (outgoingPackets === 0 || outgoingPackets < connections);
}

type Trusted = Extract<EndpointState, { kind: 'trusted' }>;
type Suspected = Extract<EndpointState, { kind: 'suspected' }>;
type Silent = Extract<EndpointState, { kind: 'silent' }>;

/**
 * A suspect is silent if connects were not answered and, since the suspicion, nothing came back from it to its clients: one
 * that only this node may not reach answers them, and an answer may have been on its way when the counters were read.
 */
function judged(suspect: Suspected, now: number): EndpointState {
  const { unanswered, lookedAt, since, traffic, past } = suspect;
  if (unanswered < UNANSWERED_TO_JUDGE || lookedAt - since < COUNTED_EVERY_MS) return suspect;
  const verdicts = now - past.lastAt < FORGET_MS ? past.verdicts + 1 : 1;
  const needed = Math.min(MOST_NEEDED, 2 * verdicts - 1);
  const counts = { unanswered: 0, answered: 0, needed };
  return { kind: 'silent', since: now, traffic, ...counts, askAt: now + ASK_AGAIN_MS, past: { verdicts, lastAt: now } };
}

function afterAnswer(state: Silent, now: number): EndpointState {
  const answered = state.answered + 1;
  if (answered >= state.needed) return trusted(state.past, now + ASK_AGAIN_MS);
  return { ...state, answered, askAt: now + ASK_AGAIN_MS };
}

function suspected({ pauseMs, past }: Trusted, traffic: Traffic, lookedAt: number, since: number): EndpointState {
  return { kind: 'suspected', since, traffic, lookedAt, unanswered: 0, pauseMs, past };
}

/** The next suspicion comes later: connects for nothing must not go on, whoever causes them. */
function cleared({ pauseMs, past }: Suspected, now: number): EndpointState {
  return { kind: 'trusted', suspectFrom: now + pauseMs, pauseMs: Math.min(SLOWEST_MS, pauseMs * 2), past };
}

function withoutPause(state: Trusted): EndpointState {
  return state.pauseMs === ASK_AGAIN_MS ? state : trusted(state.past, state.suspectFrom);
}

function trusted(past: Past, suspectFrom: number): EndpointState {
  return { kind: 'trusted', suspectFrom, pauseMs: ASK_AGAIN_MS, past };
}

export function sum(a: Traffic, b: Traffic): Traffic {
  return {
    connections: a.connections + b.connections,
    incomingPackets: a.incomingPackets + b.incomingPackets,
    outgoingPackets: a.outgoingPackets + b.outgoingPackets,
  };
}

/** Returns "12 packets of 3 new connections to it, 0 back". */
export function trafficText({ connections, incomingPackets, outgoingPackets }: Traffic): string {
  return `${counted(incomingPackets, 'packet')} of ${counted(connections, 'new connection')} to it, ${outgoingPackets} back`;
}
