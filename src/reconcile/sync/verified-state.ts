import type { Kernel } from '../../kernel/kernel.ts';
import type { Clock } from '../timing/clock.ts';

/** After this time, a full check reads everything, whoever has written. */
const MAX_AGE_MS = 10 * 60_000;

type Generations = Pick<Kernel, 'getGeneration' | 'hasOnlyOwnChangesSince'>;

/**
 * Remembers a full check that found no difference. As long as only this program changes the rules, and all its operations
 * succeed, the kernel still agrees with the plan, and the next full check need not read it. Always false in ipvs mode and
 * with iptables-legacy, where the kernel does not tell whether anything has changed.
 */
export class VerifiedState {
  readonly #kernel: Generations;
  readonly #clock: Pick<Clock, 'now'>;
  /** The check that runs now. */
  #running: { readonly generation: number | undefined } | undefined;
  #verified: { readonly generation: number; readonly at: number } | undefined;

  constructor(kernel: Generations, clock: Pick<Clock, 'now'>) {
    this.#kernel = kernel;
    this.#clock = clock;
  }

  async stillHolds(): Promise<boolean> {
    const verified = this.#verified;
    if (verified === undefined || this.#clock.now() - verified.at >= MAX_AGE_MS) return false;
    return await this.#kernel.hasOnlyOwnChangesSince(verified.generation);
  }

  /** Must be called before a full check reads anything. */
  async checkBegins(): Promise<void> {
    this.#verified = undefined;
    this.#running = { generation: await this.#kernel.getGeneration() };
  }

  /** Must be called when a full check has ended without a difference. */
  checkFoundNothing(): void {
    const generation = this.#running?.generation;
    if (generation !== undefined) this.#verified = { generation, at: this.#clock.now() };
  }

  /** Must be called after anything failed, also during a check. */
  forget(): void {
    this.#running = undefined;
    this.#verified = undefined;
  }
}
