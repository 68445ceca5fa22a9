import type { IncomingMessage } from 'node:http';

/** Ends a stream that has stalled: by destroying it, so that whoever reads it sees an error with the reason. */
export class StreamGuard {
  readonly #body: IncomingMessage;
  #idle: NodeJS.Timeout | undefined;
  #deadline: NodeJS.Timeout | undefined;

  constructor(body: IncomingMessage) {
    this.#body = body;
  }

  /** From now on the stream may be silent for so long at most; `touch` says that it was not. */
  limitSilence(milliseconds: number): void {
    clearTimeout(this.#idle);
    this.#idle = setTimeout(() => this.#end(`no byte came for ${Math.round(milliseconds / 1000)} s`), milliseconds);
  }

  limitDuration(milliseconds: number): void {
    clearTimeout(this.#deadline);
    this.#deadline = setTimeout(() => this.#end('the server did not end the connection in time'), milliseconds);
  }

  touch(): void {
    this.#idle?.refresh();
  }

  release(): void {
    clearTimeout(this.#idle);
    clearTimeout(this.#deadline);
  }

  #end(reason: string): void {
    this.#body.destroy(new Error(`the connection has stalled: ${reason}`));
  }
}

/** Reads a whole body as text. Rejects when it breaks off or is silent for too long. */
export async function readText(body: IncomingMessage, idleMs: number): Promise<string> {
  const guard = new StreamGuard(body);
  guard.limitSilence(idleMs);
  const chunks: Buffer[] = [];
  try {
    for await (const chunk of body as AsyncIterable<Buffer>) {
      guard.touch();
      chunks.push(chunk);
    }
  } finally {
    guard.release();
  }
  return Buffer.concat(chunks).toString('utf8');
}
