/** Choices that depend on a seed alone, so that a case can be made again. */
export class Random {
  #state: number;

  constructor(seed: number) {
    this.#state = seed >>> 0;
    // Neighbouring seeds give unrelated choices after a few steps.
    for (let step = 0; step < 4; step++) this.#next();
  }

  /** An integer from 0 to `below` - 1. */
  below(below: number): number {
    return Math.floor((this.#next() / 2 ** 32) * below);
  }

  /** True in so many of 100 calls. */
  percent(share: number): boolean {
    return this.below(100) < share;
  }

  pick<T>(values: readonly T[]): T {
    if (values.length === 0) throw new RangeError('nothing to pick from');
    return values[this.below(values.length)] as T;
  }

  /** Each value with this probability in percent, in their order. */
  some<T>(values: readonly T[], share: number): T[] {
    return values.filter(() => this.percent(share));
  }

  /** The PCG-RXS-M-XS generator of 32 bits (M. E. O'Neill, 2014). */
  #next(): number {
    const old = this.#state;
    this.#state = (Math.imul(old, 747_796_405) + 2_891_336_453) >>> 0;
    const word = Math.imul((old >>> ((old >>> 28) + 4)) ^ old, 277_803_737);
    return ((word >>> 22) ^ word) >>> 0;
  }
}
