import { errorText } from '../../base/text/error-text.ts';
import type { Kernel } from '../../kernel/kernel.ts';

/**
 * Finds out which schedulers the kernel has, before a virtual server needs one. The kernel loads the module of a
 * scheduler when it is asked for it.
 */
export class SchedulerCheck {
  readonly #kernel: Pick<Kernel, 'probeScheduler'>;
  readonly #present = new Set<string>();
  readonly #missing = new Map<string, string>();

  constructor(kernel: Pick<Kernel, 'probeScheduler'>) {
    this.#kernel = kernel;
  }

  /** The schedulers that were asked for and that cannot be used, each with the reason. */
  get missing(): ReadonlyMap<string, string> {
    return this.#missing;
  }

  /** Asks the kernel for the schedulers that are not known yet. */
  async learn(asked: Iterable<string>): Promise<void> {
    for (const scheduler of asked) {
      if (!this.#present.has(scheduler) && !this.#missing.has(scheduler)) await this.#probe(scheduler);
    }
  }

  /** Asks the kernel again for the missing ones. Returns whether it has one of them now. */
  async learnAgain(): Promise<boolean> {
    const before = this.#missing.size;
    for (const scheduler of this.#missing.keys()) await this.#probe(scheduler);
    return this.#missing.size < before;
  }

  async #probe(scheduler: string): Promise<void> {
    try {
      await this.#kernel.probeScheduler(scheduler);
      this.#present.add(scheduler);
      this.#missing.delete(scheduler);
    } catch (error) {
      this.#missing.set(scheduler, errorText(error));
    }
  }
}
