import type { Log } from '../observe/log.ts';

/** Something that is wrong for a while: said once, until it is something else that there is to say, and that it is over. */
export class StandingNotice {
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
