/** Logs a lasting problem when it begins, when its text changes, and when it is over. */
export class LogOnChange {
  readonly #warn: (sentence: string) => void;
  readonly #over: () => void;
  #said = '';

  /** Takes functions, not a log, so that log lines name the file that made them as their caller. */
  constructor(warn: (sentence: string) => void, over: () => void) {
    this.#warn = warn;
    this.#over = over;
  }

  say(sentence: string): void {
    if (sentence === this.#said) return;
    this.#warn(sentence);
    this.#said = sentence;
  }

  end(): void {
    if (this.#said !== '') this.#over();
    this.#said = '';
  }
}
