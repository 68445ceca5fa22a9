import { RateLimit } from '../../base/rate-limit.ts';
import { counted } from '../../base/text/counted.ts';
import { type NamespacedName, splitName } from '../../base/service/names.ts';
import type { Log } from '../../observe/log/log.ts';
import type { PlanWarning } from '../../plan/service-plan.ts';
import type { Clock } from '../timing/clock.ts';

/** Lines about Services of one namespace that are logged at once; every ten seconds, one more. */
const LINES = { burst: 20, qps: 0.1 };

interface Bucket {
  readonly limit: RateLimit;
  /** The number of lines since the last one that were not logged. */
  omitted: number;
}

/** Logs warnings about Services, so that those of one namespace can neither fill the log nor hide those of others. */
export class WarningLog {
  readonly #log: Log;
  readonly #clock: Pick<Clock, 'now'>;
  readonly #buckets = new Map<string, Bucket>();

  constructor(log: Log, clock: Pick<Clock, 'now'>) {
    this.#log = log;
    this.#clock = clock;
  }

  warn(service: NamespacedName, warning: PlanWarning): void {
    this.#tell('warn', service, warning);
  }

  /** Logs that a warning is over. It takes the place of a warning. */
  info(service: NamespacedName, end: PlanWarning): void {
    this.#tell('info', service, end);
  }

  #tell(level: 'warn' | 'info', service: NamespacedName, { reason, message }: PlanWarning): void {
    const { namespace } = splitName(service);
    const now = this.#clock.now();
    const bucket = this.#bucketOf(namespace, now);
    if (bucket.limit.waitMs(now) > 0) {
      bucket.omitted += 1;
      return;
    }
    bucket.limit.take(now);
    if (bucket.omitted > 0) {
      this.#log.warn(`${counted(bucket.omitted, 'line')} about Services of namespace ${namespace} not logged`);
    }
    this.#log[level](message, { service, reason });
    if (bucket.limit.waitMs(now) > 0 && bucket.omitted === 0) {
      this.#log.warn(`too many warnings about Services of namespace ${namespace}: run explain for one of them`);
    }
    bucket.omitted = 0;
  }

  #bucketOf(namespace: string, now: number): Bucket {
    const known = this.#buckets.get(namespace);
    if (known !== undefined) return known;
    for (const [name, { limit }] of this.#buckets) if (limit.isFull(now)) this.#buckets.delete(name);
    const bucket = { limit: new RateLimit(LINES, now), omitted: 0 };
    this.#buckets.set(namespace, bucket);
    return bucket;
  }
}
