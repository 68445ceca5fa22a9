import type { Log } from './log.ts';

/** Logs a lasting problem when it begins, when its text changes, and when it is over. */
export class LogOnChange {
  readonly #log: Log;
  readonly #over: string;
  #said = '';

  constructor(log: Log, over: string) {
    this.#log = log;
    this.#over = over;
  }

  say(sentence: string): void {
    if (sentence === this.#said) return;
    this.#log.warn(sentence);
    this.#said = sentence;
  }

  end(): void {
    if (this.#said !== '') this.#log.info(this.#over);
    this.#said = '';
  }
}
