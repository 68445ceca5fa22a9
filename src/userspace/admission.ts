import type { EngineLimits } from './engine-limits.ts';

/** Counts connections and UDP clients against the limits. */
export class Admission {
  readonly #limits: Pick<EngineLimits, 'mostOfService' | 'mostInAll'>;
  readonly #ofService = new Map<string, number>();
  #inAll = 0;

  constructor(limits: Pick<EngineLimits, 'mostOfService' | 'mostInAll'>) {
    this.#limits = limits;
  }

  /** Admits one more of a Service. Returns the function that ends it; undefined if a limit is reached. */
  admit(service: string): (() => void) | undefined {
    const count = this.#ofService.get(service) ?? 0;
    if (count >= this.#limits.mostOfService || this.#inAll >= this.#limits.mostInAll) return undefined;
    this.#ofService.set(service, count + 1);
    this.#inAll += 1;
    let ended = false;
    return () => {
      if (ended) return;
      ended = true;
      this.#inAll -= 1;
      const left = (this.#ofService.get(service) ?? 1) - 1;
      if (left === 0) this.#ofService.delete(service);
      else this.#ofService.set(service, left);
    };
  }
}
