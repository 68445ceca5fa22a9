import type { IncomingMessage } from 'node:http';
import { Yielder } from '../../base/yielder.ts';

/** Destroys a stalled stream; the reader of the stream gets the error. */
export class StreamGuard {
  readonly #body: IncomingMessage;
  #idle: NodeJS.Timeout | undefined;
  #notice: NodeJS.Timeout | undefined;
  #deadline: NodeJS.Timeout | undefined;

  constructor(body: IncomingMessage) {
    this.#body = body;
  }

  /** From now on, destroys the stream if nothing arrives for this many milliseconds. Ends `reportSilence`. */
  limitSilence(milliseconds: number): void {
    this.#endNotice();
    clearTimeout(this.#idle);
    this.#idle = setTimeout(() => this.#end(`no data for ${Math.round(milliseconds / 1000)} s`), milliseconds);
  }

  /** Calls `report` once if nothing arrives for this many milliseconds. */
  reportSilence(milliseconds: number, report: (reason: string) => void): void {
    this.#notice = setTimeout(() => {
      this.#endNotice();
      report(`the response began, then no data came for ${Math.round(milliseconds / 1000)} s`);
    }, milliseconds);
  }

  limitDuration(milliseconds: number): void {
    this.#deadline = setTimeout(() => this.#end('the server did not close the watch in time'), milliseconds);
  }

  /** Yields the chunks as they arrive, and returns to the event loop in between. Releases all timers at the end. */
  async *chunks(): AsyncGenerator<Buffer, void> {
    const yielder = new Yielder();
    try {
      for await (const chunk of this.#body as AsyncIterable<Buffer>) {
        this.#idle?.refresh();
        this.#notice?.refresh();
        yield chunk;
        if (yielder.due) await yielder.yieldIfDue();
      }
    } finally {
      this.#endNotice();
      clearTimeout(this.#idle);
      clearTimeout(this.#deadline);
    }
  }

  /** Stops the timer and forgets it, because refresh() would start it again. */
  #endNotice(): void {
    clearTimeout(this.#notice);
    this.#notice = undefined;
  }

  #end(reason: string): void {
    this.#body.destroy(new Error(`connection stalled: ${reason}`));
  }
}

/** Reads a short body as text. As `readBytes`. */
export async function readText(body: IncomingMessage, limitMs: number): Promise<string> {
  return (await readBytes(body, limitMs)).toString();
}

/** A Status has a few kB, one Service at most the 1.5 MiB of etcd. */
const MOST_BYTES = 4 * 1024 * 1024;

/** Reads a short body. Rejects if the connection breaks, or the body is too long or not complete in time. */
export async function readBytes(body: IncomingMessage, limitMs: number): Promise<Buffer> {
  const late = new Error(`connection stalled: the response was not complete within ${Math.round(limitMs / 1000)} s`);
  const timer = setTimeout(() => body.destroy(late), limitMs);
  try {
    const chunks: Buffer[] = [];
    let bytes = 0;
    for await (const chunk of body as AsyncIterable<Buffer>) {
      bytes += chunk.length;
      if (bytes > MOST_BYTES) throw new Error(`the response has more than ${MOST_BYTES} bytes`);
      chunks.push(chunk);
    }
    return Buffer.concat(chunks);
  } finally {
    clearTimeout(timer);
  }
}
