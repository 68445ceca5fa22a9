/** One finished request to the API server. */
export interface RequestObservation {
  readonly method: string;
  /** With the port. */
  readonly host: string;
  /** HTTP status, or "<error>" without a response. */
  readonly code: string;
  /** Until the response headers. */
  readonly seconds: number;
  /** Of the request body; undefined without one. */
  readonly requestBytes?: number;
}

export interface ApiObserver {
  apiRequestFinished(observation: RequestObservation): void;
  /** A response body was read to its end. Not called for watches. */
  apiResponseRead(method: string, host: string, bytes: number): void;
  /** The request is sent again, because there was no response ("<error>"). */
  apiRequestRetried(method: string, host: string, code: string): void;
  apiRateLimiterWaited(method: string, host: string, seconds: number): void;
}

/** Values of the label `state` of kubeipvs_watch_state. */
export const WATCH_STATES = ['listing', 'watching', 'waiting'] as const;

/** Label `reason` of kubeipvs_watch_restarts_total where a watch ended without a failure. */
export const WATCH_ENDED = 'ended';

export interface WatchObserver {
  setWatchState(resource: string, state: (typeof WATCH_STATES)[number]): void;
  /**
   * A list or watch ended and will be restarted.
   * @param reason WATCH_ENDED or the kind of a failure. It becomes a metric label, so it never has text of the server.
   */
  watchRestarted(resource: string, reason: string): void;
}
