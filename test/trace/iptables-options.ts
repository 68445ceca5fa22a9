interface Option {
  readonly value: string | undefined;
  readonly isNegated: boolean;
}

/** The options of a match or of a target. Each must be taken: an option that nothing takes would be ignored. */
export class Options {
  readonly name: string;
  readonly #options = new Map<string, Option>();

  constructor(name: string) {
    this.name = name;
  }

  add(name: string, value: string | undefined, isNegated: boolean): void {
    if (this.#options.has(name)) throw new Error(`${name} twice`);
    this.#options.set(name, { value, isNegated });
  }

  /** Takes an option with a value, which may be negated with "!". */
  take(name: string): { readonly value: string; readonly isNegated: boolean } | undefined {
    const option = this.#options.get(name);
    if (option === undefined) return undefined;
    if (option.value === undefined) throw new Error(`${name} without a value`);
    this.#options.delete(name);
    return { value: option.value, isNegated: option.isNegated };
  }

  /** Takes an option that is not negated. */
  value(name: string): string | undefined {
    const option = this.take(name);
    if (option?.isNegated === true) throw new Error(`"! ${name}"`);
    return option?.value;
  }

  required(name: string): string {
    const value = this.value(name);
    if (value === undefined) throw new Error(`${this.name} without ${name}`);
    return value;
  }

  /** Takes an option without a value. */
  flag(name: string): boolean {
    const option = this.#options.get(name);
    if (option === undefined) return false;
    if (option.value !== undefined || option.isNegated) throw new Error(`${name} with a value or "!"`);
    return this.#options.delete(name);
  }

  expectNoMore(): void {
    const [left] = this.#options.keys();
    if (left !== undefined) throw new Error(`unknown option ${left} of ${this.name}`);
  }
}
