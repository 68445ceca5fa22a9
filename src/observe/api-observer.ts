/** One finished request to the API server. */
export interface RequestObservation {
  readonly method: string;
  /** Host and port of the API server. */
  readonly host: string;
  /** HTTP status, or "<error>" without a response. */
  readonly code: string;
  /** Time until the response headers arrived. */
  readonly seconds: number;
  /** Size of the request body; undefined without one. */
  readonly requestBytes?: number;
}

export interface ApiObserver {
  apiRequestFinished(observation: RequestObservation): void;
  /** Called when a response body was read to its end; not for watches. */
  apiResponseRead(method: string, host: string, bytes: number): void;
  /** Called when a request is sent again, because there was no response ("<error>"). */
  apiRequestRetried(method: string, host: string, code: string): void;
  apiRateLimiterWaited(method: string, host: string, seconds: number): void;
}

/** Values of the label `state` of kubeipvs_watch_state. */
export const WATCH_STATES = ['listing', 'watching', 'waiting'] as const;

/** The state of a watch, and since when it is `watching`, or is not, in ms of the monotonic clock. */
export interface WatchState {
  readonly state: (typeof WATCH_STATES)[number];
  readonly since: number;
}

/** While the API server is away, the attempts to list do not change `since`. */
export function nextWatchState(before: WatchState | undefined, state: WatchState['state'], now: number): WatchState {
  const same = before !== undefined && (before.state === 'watching') === (state === 'watching');
  return { state, since: same ? before.since : now };
}

/** Label `reason` of kubeipvs_watch_restarts_total if a watch ended without a failure. */
export const WATCH_ENDED = 'ended';

export interface WatchObserver {
  setWatchState(resource: string, state: (typeof WATCH_STATES)[number]): void;
  /**
   * A list or watch ended and will be restarted.
   * @param reason WATCH_ENDED or the kind of a failure. It becomes a metric label, so it never has text of the server.
   */
  watchRestarted(resource: string, reason: string): void;
}
