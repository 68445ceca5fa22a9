// What the traffic client is told and what it writes. The runner imports only this file of the folder.

/** An address that new and long connections go to. */
export interface Target {
  /** What it is for readers: `NodePort of node-1`. */
  readonly name: string;
  readonly address: string;
  readonly port: number;
}

/** The only argument of the client, as JSON. */
export interface ClientOrder {
  /** What the client is called in the results: `Pod` or `host`. */
  readonly client: string;
  /** File that lines are appended to. */
  readonly output: string;
  /** The client ends when this file exists. */
  readonly stopFile: string;
  readonly targets: readonly Target[];
  readonly newPerSecond: number;
  readonly longConnections: number;
}

/**
 * How a connection failed. `timeout`: no connection or no complete answer in time. `silent`: an open connection that
 * answered before and does not any more. `closed`: ended in order, but before the answer.
 */
export type FailureKind = 'refused' | 'unreachable' | 'timeout' | 'reset' | 'closed' | 'silent' | 'other';

/** Times are milliseconds since 1970, by the clock of the client. */
interface Line {
  readonly at: number;
}

/** A connection that was not served (`cut` is false) or that was and then broke (`cut` is true). */
export interface FailureLine extends Line {
  readonly event: 'failure';
  /** When the connection was begun; of a long connection that broke: when the unanswered request was sent. */
  readonly at: number;
  readonly target: string;
  readonly kind: FailureKind;
  readonly cut: boolean;
  /** The system's code or the answer that was no answer. */
  readonly detail: string;
  /** Milliseconds from `at` to the failure. */
  readonly ms: number;
  readonly localPort: number;
  /** The last server that answered on this connection. */
  readonly served?: string;
}

/** A request that was answered after more than a second. */
export interface SlowLine extends Line {
  readonly event: 'slow';
  readonly target: string;
  readonly long: boolean;
  readonly ms: number;
  readonly localPort: number;
  readonly served: string;
}

/** A silent connection that answered after all, `ms` after the request. */
export interface ResumedLine extends Line {
  readonly event: 'resumed';
  readonly target: string;
  readonly ms: number;
  readonly localPort: number;
  readonly served: string;
}

export interface Counts {
  /** Connections that were begun, the long ones included. */
  readonly asked: number;
  readonly answered: number;
  readonly failed: number;
  readonly slow: number;
  readonly cut: number;
  /** Answers on long connections. */
  readonly longAnswers: number;
  /** Failures beyond the maximum number of lines. */
  readonly unlisted: number;
}

/** Each second, and as `end` when the client ends. */
export interface TickLine extends Line {
  readonly event: 'tick' | 'end';
  /** Since the start. */
  readonly counts: Counts;
  /** The longest time in this second that the client itself could not run. */
  readonly lagMs: number;
  /** The targets at which each server answered new connections in this second. */
  readonly servers: Readonly<Record<string, readonly string[]>>;
  /** Long connections that are open, by the server that answered last. */
  readonly long: Readonly<Record<string, number>>;
}

export type ClientLine = FailureLine | SlowLine | ResumedLine | TickLine;
