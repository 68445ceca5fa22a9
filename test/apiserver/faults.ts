/** A fault of one request. */
export type Fault =
  /** Responds with this error status. */
  | { readonly type: 'status'; readonly code: number; readonly retryAfterSeconds?: number; readonly message?: string }
  /** Closes the connection without a response. */
  | { readonly type: 'drop' }
  /** Accepts the request but never responds. */
  | { readonly type: 'stall' }
  /** Stops the response after this many bytes and closes the connection, or leaves it open. */
  | { readonly type: 'cut'; readonly afterBytes: number; readonly ending: 'close' | 'silence' }
  /** Sends the body in pieces of this many bytes, and pauses after each. */
  | { readonly type: 'slow'; readonly bytes: number; readonly pauseMs: number }
  /** Sends this line before the regular body. */
  | { readonly type: 'garbage'; readonly line: string }
  /** Rejects the continue token as expired, as after a compaction between two pages. */
  | { readonly type: 'expire' };

export interface FaultRule {
  /** An undefined verb or resource matches any. */
  readonly verb?: 'list' | 'watch' | 'create' | 'update' | 'patch' | 'delete';
  readonly resource?: string;
  /** Whether the fault applies to pages after the first (true) or to the first (false); undefined means both. */
  readonly continued?: boolean;
  /** Number of requests to fail; 1 by default. */
  readonly times?: number;
  readonly fault: Fault;
}

interface Pending {
  readonly rule: FaultRule;
  left: number;
}

/** Faults for future requests. Each request takes the first fault that matches it. */
export class FaultPlan {
  #pending: Pending[] = [];

  add(rule: FaultRule): void {
    this.#pending.push({ rule, left: rule.times ?? 1 });
  }

  clear(): void {
    this.#pending = [];
  }

  take(verb: string, resource: string, continued: boolean): Fault | undefined {
    const found = this.#pending.find(
      ({ rule }) =>
        (rule.verb ?? verb) === verb &&
        (rule.resource ?? resource) === resource &&
        (rule.continued === undefined || rule.continued === continued),
    );
    if (found === undefined) return undefined;
    if (--found.left <= 0) this.#pending.splice(this.#pending.indexOf(found), 1);
    return found.rule.fault;
  }
}

/** Writes a response in order, with the fault applied. */
export class FaultySink {
  readonly #write: (bytes: Buffer) => void;
  readonly #end: () => void;
  readonly #destroy: () => void;
  readonly #fault: Fault | undefined;
  #sent = 0;
  #queue: Promise<void> = Promise.resolve();
  #dead = false;

  constructor(
    response: { write(bytes: Buffer): unknown; end(): unknown; destroy(): unknown },
    fault: Fault | undefined,
  ) {
    this.#write = (bytes) => void response.write(bytes);
    this.#end = () => void response.end();
    this.#destroy = () => void response.destroy();
    this.#fault = fault;
    if (fault?.type === 'garbage') this.#write(Buffer.from(`${fault.line}\n`));
  }

  send(body: string | Buffer): void {
    const bytes = Buffer.from(body);
    const fault = this.#fault;
    if (fault?.type !== 'slow' && fault?.type !== 'cut') {
      if (!this.#dead) this.#write(bytes);
      return;
    }
    if (fault.type === 'cut') return this.#sendUntil(bytes, fault.afterBytes, fault.ending);
    this.#queue = this.#queue.then(() => this.#sendSlowly(bytes, fault.bytes, fault.pauseMs));
  }

  end(): void {
    this.#queue = this.#queue.then(() => {
      if (!this.#dead) this.#end();
    });
  }

  /** Closes the connection at once, even within an event. */
  destroy(): void {
    this.#dead = true;
    this.#destroy();
  }

  /** Sends no more data, but keeps the connection open. */
  silence(): void {
    this.#dead = true;
  }

  #sendUntil(bytes: Buffer, limit: number, ending: 'close' | 'silence'): void {
    if (this.#dead) return;
    const piece = bytes.subarray(0, limit - this.#sent);
    this.#sent += piece.length;
    if (piece.length > 0) this.#write(piece);
    if (this.#sent < limit) return;
    this.#dead = true;
    // Give the piece time to be sent before the connection closes.
    if (ending === 'close') setTimeout(() => this.#destroy(), 5);
  }

  async #sendSlowly(bytes: Buffer, size: number, pauseMs: number): Promise<void> {
    for (let start = 0; start < bytes.length && !this.#dead; start += size) {
      this.#write(bytes.subarray(start, start + size));
      await new Promise((resolve) => {
        if (pauseMs === 0) setImmediate(resolve);
        else setTimeout(resolve, pauseMs);
      });
    }
  }
}
