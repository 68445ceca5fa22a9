import { errorText } from '../base/text/error-text.ts';
import type { Log } from './log/log.ts';
import {
  type HttpHandler,
  HttpListener,
  type ListenAddress,
  bindAdvice,
  formatListenAddress,
} from './http-listener.ts';

export interface HttpServerOptions {
  /** Name for log lines, such as "health server". */
  readonly name: string;
  readonly where: ListenAddress;
  readonly handler: HttpHandler;
  readonly log: Log;
  /** Whether a failure to bind rejects `start` instead of being retried. */
  readonly hardFail: boolean;
  /** Milliseconds between two attempts to bind. */
  readonly retryEvery?: number;
}

/** An HTTP server that retries to bind its port: during an upgrade the previous proxy may still hold it. */
export class HttpServer {
  readonly #options: HttpServerOptions;
  #listener: HttpListener | undefined;
  #timer: NodeJS.Timeout | undefined;
  #attempt: Promise<void> = Promise.resolve();
  #closed = false;

  constructor(options: HttpServerOptions) {
    this.#options = options;
  }

  /** The port that was bound; undefined while there is none. */
  get port(): number | undefined {
    return this.#listener?.port;
  }

  /** Resolves after the first attempt, successful or not; rejects only with hardFail. */
  start(): Promise<void> {
    this.#attempt = this.#open();
    return this.#attempt;
  }

  /** Resolves when the port is free and no attempt is under way. */
  async close(): Promise<void> {
    this.#closed = true;
    clearTimeout(this.#timer);
    await this.#attempt.catch(() => undefined);
    await this.#listener?.close();
    this.#listener = undefined;
  }

  async #open(): Promise<void> {
    const { name, where, handler, log, hardFail, retryEvery = 5_000 } = this.#options;
    const address = formatListenAddress(where);
    try {
      this.#listener = await HttpListener.open(where, handler);
      if (!this.#closed) log.info(`${name} listening`, { address });
    } catch (cause) {
      const error = errorText(cause);
      if (hardFail) throw new Error(`the ${name} cannot listen on ${address}: ${error}`, { cause });
      if (this.#closed) return;
      const advice = bindAdvice(cause, where.port);
      log.error(`${name} cannot listen on ${address}: ${error}${advice}; next attempt in ${retryEvery / 1_000} s`);
      this.#timer = setTimeout(() => void this.start(), retryEvery);
    }
  }
}
