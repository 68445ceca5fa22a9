/** What the program on the node is told, as a file of JSON. */
export interface ChurnOrder {
  /** The API server and how to get in: PEM, in base64 as a kubeconfig has it. */
  readonly server: string;
  readonly authority: string;
  readonly certificate: string;
  readonly key: string;
  readonly namespace: string;
  readonly services: number;
  /** Of each Service. */
  readonly endpoints: number;
  /** Writes that replace one endpoint of one Service by another. */
  readonly writesPerSecond: number;
  readonly seconds: number;
  /** File for the result. */
  readonly output: string;
}

export interface ChurnResult {
  /** Milliseconds from the first request until the kernel had all real servers. */
  readonly fillMs: number;
  /** Of each write, the milliseconds from sending the request until the kernel had the real server. */
  readonly latencies: readonly number[];
  /** The same from the API server's answer; negative if the kernel was first. */
  readonly afterAnswer: readonly number[];
  /** Writes that were due while every Service still waited for the one before. */
  readonly skipped: number;
  /** Writes that did not reach the kernel within the time limit. */
  readonly lost: number;
  /** The longest time between two looks at the kernel. */
  readonly longestLookMs: number;
}
