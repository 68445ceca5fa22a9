import { NO_STATS, type VirtualServerStats, eachCounter } from '../state/server-stats.ts';
import { counted } from '../base/text/counted.ts';
import { unreachable } from '../base/unreachable.ts';

/** Packets and new connections to an endpoint, and packets from it, between two reads of the counters. */
export type Traffic = VirtualServerStats;

/** The result of a TCP connect from this node. `not-sent`: this node could not send it, which says nothing of the endpoint. */
export type ConnectResult = 'answered' | 'refused' | 'unanswered' | 'not-sent';

/** Earlier verdicts about an endpoint: one that is silent again and again must answer more often before it is trusted. */
interface Past {
  readonly verdicts: number;
  /** When the last one ended, or began if it holds. */
  readonly lastAt: number;
}

/** What makes a trusted endpoint a suspect: nothing came back, or fewer packets than answered connections have. */
type Doubt = 'none' | 'few';

/** When doubts count again after an answer to this node has cleared one, and how long the next pause is. */
interface Pause {
  readonly until: number;
  readonly nextMs: number;
}

type Pauses = Readonly<Record<Doubt, Pause>>;

/** The state of an endpoint. Times are in ms of the monotonic clock. */
export type EndpointState = { readonly past: Past } & (
  | {
      /** It has not answered this node yet. A NetworkPolicy may close it to nodes, so its silence alone says nothing. */
      readonly kind: 'unknown';
      /** Whether packets to it were counted since the last connect: only then it is asked. */
      readonly hasTraffic: boolean;
      /** Whether it has answered its clients. */
      readonly hasServed: boolean;
      readonly askFrom: number;
      /** How long it is not asked after the next connect that it does not answer. */
      readonly pauseMs: number;
    }
  | {
      readonly kind: 'trusted';
      readonly pauses: Pauses;
      /** Whether it was silent, and has not answered since. */
      readonly onTrial: boolean;
      /** When it answered again after a verdict. */
      readonly backAt: number;
    }
  | {
      readonly kind: 'suspected';
      readonly since: number;
      readonly traffic: Traffic;
      readonly doubt: Doubt;
      /** Whether an answer may have been on its way to its clients at the first read: then a whole period must tell. */
      readonly needsLook: boolean;
      /** When the last read of its counters began; the first one had ended at `since`. */
      readonly lookedAt: number;
      /** Whether this node has asked it, without an answer. */
      readonly wasAsked: boolean;
      readonly pauses: Pauses;
      readonly onTrial: boolean;
    }
  | {
      readonly kind: 'silent';
      readonly since: number;
      readonly traffic: Traffic;
      /** Whether it had answered this node before. */
      readonly wasKnown: boolean;
      readonly unanswered: number;
      /** Connects in a row that it has answered since the verdict, and must answer to be trusted. */
      readonly answered: number;
      readonly needed: number;
      readonly askAt: number;
      /** The first unanswered connect after this time ends the verdict, so that its clients' traffic tells anew. */
      readonly trialAt: number;
    }
);

/** The kernel sums up its counters so often (net/netfilter/ipvs/ip_vs_est.c). */
export const COUNTED_EVERY_MS = 2_000;
const ASK_AGAIN_MS = 2_000;
const SLOWEST_MS = 30_000;
/** So many connects after a verdict are ASK_AGAIN_MS apart; then the time between them doubles, up to SLOWEST_MS. */
const QUICK_ASKS = 5;
/** Verdicts so long ago no longer count. */
const FORGET_MS = 600_000;
const MOST_NEEDED = 7;
/** How long a first verdict lasts without an answer. Each verdict that follows lasts twice as long, up to LONGEST_MS. */
const VERDICT_MS = 300_000;
const LONGEST_MS = 1_800_000;
/** An endpoint that answers again has a quarter of its weight for so long, then half of it. */
export const RAMP_STEP_MS = 10_000;
/** How long a verdict of an earlier run lasts if traffic does not confirm it: time for some connects. */
const RESTORED_MS = 15_000;

const INNOCENT: Past = { verdicts: 0, lastAt: -Infinity };

export const UNKNOWN: EndpointState = {
  kind: 'unknown',
  hasTraffic: false,
  hasServed: false,
  askFrom: -Infinity,
  pauseMs: ASK_AGAIN_MS,
  past: INNOCENT,
};

/**
 * The state of an endpoint that has weight 0 since an earlier run of this program: it is asked at once. It may have been
 * silent, or drained, and it may never have answered this node.
 */
export function restored(now: number): EndpointState {
  const counts = { unanswered: 0, answered: 0, needed: 1, wasKnown: false };
  const times = { since: now, askAt: now, trialAt: now + RESTORED_MS };
  return { kind: 'silent', traffic: NO_STATS, ...counts, ...times, past: { verdicts: 1, lastAt: now } };
}

/** Returns the time of the next connect; Infinity without one. */
export function askAt(state: EndpointState): number {
  switch (state.kind) {
    case 'unknown':
      return state.hasTraffic ? state.askFrom : Infinity;
    case 'trusted':
      return Infinity;
    case 'suspected':
      return state.wasAsked ? Infinity : state.since;
    case 'silent':
      return state.askAt;
    default:
      return unreachable(state);
  }
}

/** Returns the part of its weight that an endpoint gets: none while it is silent, and a growing part when it answers again. */
export function shareOf(state: EndpointState, now: number): number {
  if (state.kind === 'silent') return 0;
  if (state.kind !== 'trusted' || now >= state.backAt + 2 * RAMP_STEP_MS) return 1;
  return now < state.backAt + RAMP_STEP_MS ? 0.25 : 0.5;
}

/** Whether only a read of the counters is missing for a verdict. */
export function awaitsLook(state: EndpointState): boolean {
  return state.kind === 'suspected' && state.wasAsked;
}

/**
 * Returns the state after a read of the counters.
 *
 * @param traffic since the previous read
 * @param beganAt when the read began
 * @param mostAnswer whether most endpoints of its Service have answered this node: then one that has answered nobody, as if
 * it died before this program started, may be suspected
 */
export function afterLook(
  state: EndpointState,
  traffic: Traffic,
  beganAt: number,
  now: number,
  mostAnswer = false,
): EndpointState {
  const hasAnswered = answersIn(traffic) > 0;
  switch (state.kind) {
    case 'unknown':
      if (traffic.incomingPackets === 0) return state;
      if (hasAnswered) return { ...state, hasTraffic: true, hasServed: true };
      if (mostAnswer && !state.hasServed && state.pauseMs > ASK_AGAIN_MS) {
        return suspected({ ...trusted(state.past, now), onTrial: true }, 'none', traffic, beganAt, now);
      }
      return { ...state, hasTraffic: true };
    case 'trusted': {
      const doubt = doubtOf(traffic);
      if (doubt !== undefined && now >= state.pauses[doubt].until)
        return suspected(state, doubt, traffic, beganAt, now);
      if (!hasAnswered) return state;
      return state.onTrial ? closedToNode(state.past, now) : withShortPause(state, doubt);
    }
    case 'suspected':
      if (!hasAnswered)
        return judged(
          { ...state, traffic: eachCounter((counter) => state.traffic[counter] + traffic[counter]), lookedAt: beganAt },
          now,
        );
      return state.onTrial ? closedToNode(state.past, now) : { ...trusted(state.past, now), pauses: state.pauses };
    case 'silent':
      // Its open connections are answered. Errors about packets of before the verdict come for some seconds more.
      if (hasAnswered && !areErrors(traffic)) return afterAnswer(state, state.unanswered === 0 && state.wasKnown, now);
      return doubtOf(traffic) !== undefined
        ? { ...state, trialAt: Math.max(state.trialAt, state.since + VERDICT_MS) }
        : state;
    default:
      return unreachable(state);
  }
}

/** Returns the state after a read that does not tell the traffic since the previous one: answers in it may be missing. */
export function afterUnknown(state: EndpointState, now: number): EndpointState {
  return state.kind === 'suspected' ? { ...state, since: now, lookedAt: now, needsLook: true } : state;
}

export function afterConnect(state: EndpointState, result: ConnectResult, now: number): EndpointState {
  const isAlive = result === 'answered' || result === 'refused';
  switch (state.kind) {
    case 'unknown':
      return isAlive ? trusted(state.past, now) : stillUnknown(state, result, now);
    case 'trusted':
      return isAlive && state.onTrial ? { ...state, onTrial: false } : state;
    case 'suspected':
      if (isAlive) return cleared(state, now);
      if (result === 'not-sent') return { ...trusted(state.past, now + ASK_AGAIN_MS), onTrial: state.onTrial };
      return judged({ ...state, wasAsked: true }, now);
    case 'silent':
      if (isAlive) return afterAnswer(state, true, now);
      return result === 'not-sent' || now >= state.trialAt ? ended(state, now) : stillSilent(state, now);
    default:
      return unreachable(state);
  }
}

function doubtOf(traffic: Traffic): Doubt | undefined {
  if (traffic.incomingPackets === 0) return undefined;
  const answers = answersIn(traffic);
  if (answers === 0) return 'none';
  return answers < ANSWERS_OF_CONNECTION * traffic.connections ? 'few' : undefined;
}

/** Whether a client has repeated its first packet, for which it waits a second. */
function hasRepeats({ connections, incomingPackets }: Traffic): boolean {
  return connections > 0 && incomingPackets > connections;
}

/** What bounds the size of an ICMP error about a packet, in bytes, by IP version. */
interface ErrorSize {
  /** The headers that the error adds to the packet (IPv4 and ICMP, IPv6 and ICMPv6). */
  readonly headers: number;
  /** The size of the smallest TCP packet. */
  readonly least: number;
  /** The largest error that Linux sends (net/ipv4/icmp.c, net/ipv6/icmp.c). */
  readonly most: number;
}

const ERROR_SIZES: readonly ErrorSize[] = [
  { headers: 28, least: 40, most: 576 },
  { headers: 48, least: 60, most: 1_280 },
];
/** The largest packet that is expected in most networks, in bytes. */
const FULL_PACKET = 1_500;
/** Most answered connections have at least as many packets from the endpoint: its SYN, an answer, its FIN. */
const ANSWERS_OF_CONNECTION = 3;

/**
 * Returns the number of packets that came from the endpoint. IPVS also counts the ICMP errors by which routers and this node
 * say that the endpoint cannot be reached. Only their mean size tells. This node sends them 3 s after the packets that they
 * are about (ARP), so that there may be none to the endpoint at that time. Answers of the same size count as errors; then the
 * endpoint is asked, and answers.
 */
function answersIn({ connections, ...traffic }: Traffic): number {
  const { incomingPackets, outgoingPackets } = traffic;
  if (outgoingPackets === 0 || incomingPackets === 0) return 0;
  if (connections > 0 && outgoingPackets >= ANSWERS_OF_CONNECTION * connections) return outgoingPackets;
  return areErrors(traffic) ? 0 : outgoingPackets;
}

function areErrors({
  incomingPackets,
  outgoingPackets,
  incomingBytes,
  outgoingBytes,
}: Omit<Traffic, 'connections'>): boolean {
  const about = incomingBytes / incomingPackets;
  const size = outgoingBytes / outgoingPackets;
  return ERROR_SIZES.some((bounds) =>
    about + bounds.headers < bounds.most
      ? Math.abs(size - about - bounds.headers) < 1
      : outgoingPackets <= incomingPackets && mayBeCut(size, about, bounds),
  );
}

/** Whether errors about packets of a mean size, of which some are cut, may have this mean size: small packets lower it. */
function mayBeCut(size: number, about: number, { headers, least, most }: ErrorSize): boolean {
  const fullShare = Math.min(1, (about - least) / (FULL_PACKET - least));
  const lowest = least + headers + fullShare * (most - least - headers);
  return size > lowest - 1 && size < most + 1;
}

type Unknown = Extract<EndpointState, { kind: 'unknown' }>;
type Trusted = Extract<EndpointState, { kind: 'trusted' }>;
type Suspected = Extract<EndpointState, { kind: 'suspected' }>;
type Silent = Extract<EndpointState, { kind: 'silent' }>;

function stillUnknown(state: Unknown, result: ConnectResult, now: number): EndpointState {
  const asked = { ...state, hasTraffic: false };
  if (result === 'not-sent') return { ...asked, askFrom: now + ASK_AGAIN_MS };
  return { ...asked, askFrom: now + state.pauseMs, pauseMs: Math.min(VERDICT_MS, state.pauseMs * 2) };
}

/** The state of an endpoint that answers its clients, but has not answered this node lately: it is asked at once. */
function closedToNode(past: Past, now: number): Unknown {
  return { kind: 'unknown', hasTraffic: true, hasServed: true, askFrom: now, pauseMs: ASK_AGAIN_MS, past };
}

/**
 * A suspect is silent if it has not answered this node either and, since the suspicion, nothing came back from it to its
 * clients: one that only this node may not reach answers them.
 */
function judged(suspect: Suspected, now: number): EndpointState {
  const { wasAsked, needsLook, lookedAt, since, traffic, past } = suspect;
  if (!wasAsked || (needsLook && lookedAt - since < COUNTED_EVERY_MS)) return suspect;
  const verdicts = now - past.lastAt < FORGET_MS ? past.verdicts + 1 : 1;
  const needed = Math.min(MOST_NEEDED, 2 * verdicts - 1);
  const counts = { unanswered: 0, answered: 0, needed, wasKnown: true };
  const trialAt = now + Math.min(LONGEST_MS, VERDICT_MS * 2 ** (verdicts - 1));
  const times = { since: now, askAt: now + ASK_AGAIN_MS, trialAt };
  return { kind: 'silent', traffic, ...counts, ...times, past: { verdicts, lastAt: now } };
}

function stillSilent(state: Silent, now: number): EndpointState {
  const unanswered = state.unanswered + 1;
  const pause = Math.min(SLOWEST_MS, ASK_AGAIN_MS * 2 ** Math.max(0, unanswered - QUICK_ASKS));
  return { ...state, unanswered, answered: 0, askAt: now + pause };
}

/** @param isKnown whether it has answered this node, and not only its clients */
function afterAnswer(state: Silent, isKnown: boolean, now: number): EndpointState {
  const answered = state.answered + 1;
  if (answered < state.needed) return { ...state, answered, askAt: now + ASK_AGAIN_MS };
  const past = { ...state.past, lastAt: now };
  return isKnown ? { ...trusted(past, now + ASK_AGAIN_MS), backAt: now } : closedToNode(past, now);
}

/** The state after a verdict that ends without an answer. */
function ended({ past, wasKnown }: Silent, now: number): EndpointState {
  const after = { ...past, lastAt: now };
  return wasKnown
    ? { ...trusted(after, now + ASK_AGAIN_MS), onTrial: true }
    : { ...closedToNode(after, now + ASK_AGAIN_MS), hasTraffic: false, hasServed: false };
}

function suspected(state: Trusted, doubt: Doubt, traffic: Traffic, lookedAt: number, since: number): EndpointState {
  const { pauses, onTrial, past } = state;
  const needsLook = doubt === 'few' || !hasRepeats(traffic);
  return { kind: 'suspected', since, traffic, doubt, needsLook, lookedAt, wasAsked: false, pauses, onTrial, past };
}

/** Delays the next such suspicion, so that a client cannot cause connects without end. */
function cleared({ doubt, pauses, past }: Suspected, now: number): EndpointState {
  const { nextMs } = pauses[doubt];
  const pause = { until: now + nextMs, nextMs: Math.min(SLOWEST_MS, nextMs * 2) };
  return { ...trusted(past, now), pauses: { ...pauses, [doubt]: pause } };
}

/** The state after an answer to a client. Its connections may always have few packets: then only that doubt keeps its pause. */
function withShortPause(state: Trusted, doubt: Doubt | undefined): EndpointState {
  const { none, few } = state.pauses;
  if (none.nextMs === ASK_AGAIN_MS && (doubt === 'few' || few.nextMs === ASK_AGAIN_MS)) return state;
  const pauses = { none: shortened(none), few: doubt === 'few' ? few : shortened(few) };
  return { ...state, pauses };
}

function shortened({ until }: Pause): Pause {
  return { until, nextMs: ASK_AGAIN_MS };
}

function trusted(past: Past, suspectFrom: number): Trusted {
  const pause = { until: suspectFrom, nextMs: ASK_AGAIN_MS };
  return { kind: 'trusted', pauses: { none: pause, few: pause }, onTrial: false, backAt: -Infinity, past };
}

/** Returns "12 packets of 3 new connections to it, 0 back". */
export function trafficText(traffic: Traffic): string {
  const { connections, incomingPackets } = traffic;
  return `${counted(incomingPackets, 'packet')} of ${counted(connections, 'new connection')} to it, ${answersIn(traffic)} back`;
}
