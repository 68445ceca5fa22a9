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

/** A listener that is opened again and again until that succeeds: a daemon that this one replaces may still have it. */
export abstract class RetriedListener {
  #listener: HttpListener | undefined;
  #timer: NodeJS.Timeout | undefined;
  #attempt: Promise<void> = Promise.resolve();
  #closed = false;

  protected abstract open(): Promise<HttpListener>;

  /** Reports that it could not be opened, and returns after how many ms to try again; throws if that is not wanted. */
  protected abstract failed(cause: unknown): number;

  /** The port that was bound; undefined while there is none. */
  get port(): number | undefined {
    return this.#listener?.port;
  }

  /** Resolves after the first attempt, successful or not; rejects only if `failed` throws. */
  start(): Promise<void> {
    this.#attempt = this.#try();
    return this.#attempt;
  }

  /** Resolves when it is closed and no attempt is under way. */
  async close(): Promise<void> {
    this.#closed = true;
    clearTimeout(this.#timer);
    await this.#attempt.catch(() => undefined);
    await this.#listener?.close();
    this.#listener = undefined;
  }

  async #try(): Promise<void> {
    try {
      this.#listener = await this.open();
    } catch (cause) {
      if (!this.#closed) this.#timer = setTimeout(() => void this.start(), this.failed(cause)).unref();
    }
  }
}

export class HttpServer extends RetriedListener {
  readonly #options: HttpServerOptions;

  constructor(options: HttpServerOptions) {
    super();
    this.#options = options;
  }

  protected async open(): Promise<HttpListener> {
    const { name, where, handler, log } = this.#options;
    const listener = await HttpListener.open(where, handler);
    log.info(`${name} listening`, { address: formatListenAddress(where) });
    return listener;
  }

  protected failed(cause: unknown): number {
    const { name, where, log, hardFail, retryEvery = 5_000 } = this.#options;
    const message = `${name} cannot listen on ${formatListenAddress(where)}: ${errorText(cause)}`;
    if (hardFail) throw new Error(`the ${message}`, { cause });
    log.error(`${message}${bindAdvice(cause, where.port)}; next attempt in ${retryEvery / 1_000} s`);
    return retryEvery;
  }
}
