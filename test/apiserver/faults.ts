/** What goes wrong with one request. */
export type Fault =
  /** Answers with this instead. */
  | { readonly type: 'status'; readonly code: number; readonly retryAfterSeconds?: number; readonly message?: string }
  /** Closes the connection without an answer. */
  | { readonly type: 'drop' }
  /** Takes the request and never answers. */
  | { readonly type: 'stall' }
  /** Answers, and stops after so many bytes: closes the connection, or leaves it open in silence. */
  | { readonly type: 'cut'; readonly afterBytes: number; readonly ending: 'close' | 'silence' }
  /** Sends the body in pieces of so many bytes, each after a pause. */
  | { readonly type: 'slow'; readonly bytes: number; readonly pauseMs: number }
  /** Sends this line first. */
  | { readonly type: 'garbage'; readonly line: string }
  /** Pretends that the continue token has expired: what compaction does between two pages. */
  | { readonly type: 'expire' };

export interface FaultRule {
  /** undefined: any. */
  readonly verb?: 'list' | 'watch' | 'create' | 'update' | 'patch' | 'delete';
  readonly resource?: string;
  /** Only pages after the first. */
  readonly continued?: boolean;
  /** To so many requests; 1 by default. */
  readonly times?: number;
  readonly fault: Fault;
}

interface Pending {
  readonly rule: FaultRule;
  left: number;
}

/** Faults that wait for the requests that they are meant for, first come first served. */
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

/** Where bytes go: an HTTP response, in whatever manner the fault demands, in order. */
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

  send(text: string): void {
    const bytes = Buffer.from(text);
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

  /** Closes the connection in the middle of whatever it is doing. */
  destroy(): void {
    this.#dead = true;
    this.#destroy();
  }

  /** Says nothing more, but keeps the connection. */
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
    // The piece must be on its way before the connection goes.
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
