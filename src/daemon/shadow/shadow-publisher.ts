import { differenceCounts, shadowText, shadowWords } from '../../explain/difference/difference-tally.ts';
import type { PlannedOperation, StatusReply } from '../../explain/replies.ts';
import type { Log } from '../../observe/log/log.ts';
import { LogOnChange } from '../../observe/log/log-on-change.ts';
import type { ProxyHealth } from '../../observe/health.ts';
import type { ProxyMetrics } from '../../observe/proxy-metrics.ts';
import type { Clock } from '../../reconcile/timing/clock.ts';
import type { ShadowObserver } from '../../reconcile/shadow.ts';

export interface ShadowPublisherOptions {
  readonly metrics: Pick<ProxyMetrics, 'shadowCompared'>;
  readonly health: Pick<ProxyHealth, 'queued' | 'synced' | 'failed'>;
  readonly clock: Pick<Clock, 'now' | 'wallNow'>;
  readonly log: Log;
}

/** Unexpected differences that a log line names. */
const NAMED = 10;

/** Passes what a shadow finds to metrics, health, status and the log. */
export class ShadowPublisher implements ShadowObserver {
  readonly #options: ShadowPublisherOptions;
  readonly #failure: LogOnChange;
  /** What was logged last: the unexpected differences, and the names of the known ones. */
  #logged: string | undefined;
  #last: StatusReply['shadow'];

  constructor(options: ShadowPublisherOptions) {
    const { log } = options;
    this.#options = options;
    this.#failure = new LogOnChange(
      (sentence) => log.error(sentence),
      () => log.info('the kernel can be compared again'),
    );
  }

  /** The differences that two comparisons in a row have found; undefined before. */
  get last(): StatusReply['shadow'] {
    return this.#last;
  }

  queued(): void {
    const { health, clock } = this.#options;
    health.queued(clock.now());
  }

  compared(confirmed: readonly PlannedOperation[], more: number): void {
    const { metrics, health, clock } = this.#options;
    this.#failure.end();
    health.synced(clock.now());
    metrics.shadowCompared(differenceCounts(confirmed), more, clock.wallNow());
    this.#last = { ...shadowText(confirmed, more), comparedAt: new Date(clock.wallNow()).toISOString() };
    this.#logChange(confirmed);
  }

  failed(error: Error, retryMs: number): void {
    const { health } = this.#options;
    health.failed(error.message);
    this.#failure.say(
      `the kernel cannot be compared with the plan, next attempt within ${Math.ceil(retryMs / 1_000)} s: ${error.message}`,
    );
  }

  /** Logs when other differences are unexpected or other kinds of differences are known, not when numbers change. */
  #logChange(confirmed: readonly PlannedOperation[]): void {
    if (this.#last === undefined) return;
    const unexpected = confirmed.filter(({ known }) => known === undefined).map(({ command }) => command);
    const state = [...Object.keys(this.#last.known).toSorted(), ...unexpected].join('\n');
    if (state === this.#logged) return;
    this.#logged = state;
    const sentence = `kernel and plan compared: ${shadowWords(this.#last)}`;
    if (unexpected.length === 0) return this.#options.log.info(sentence);
    const rest = unexpected.length - NAMED;
    const named = [...unexpected.slice(0, NAMED), ...(rest > 0 ? [`and ${rest} more`] : [])];
    this.#options.log.warn(sentence, { unexpected: named });
  }
}
