import type { ReadStream, WriteStream } from 'node:tty';

/** The standard streams of this process. */
export interface Streams {
  readonly stdin: Pick<ReadStream, 'isTTY' | 'setRawMode' | 'on' | 'off' | 'resume' | 'pause'>;
  readonly stdout: Pick<WriteStream, 'isTTY' | 'rows' | 'columns' | 'write'>;
}

/** Cursor to the top left; clear to the end of the line; clear to the end of the screen. */
const HOME = '\u001B[H';
const CLEAR_LINE = '\u001B[K';
const CLEAR_BELOW = '\u001B[J';
/** What q, Q and Ctrl-C send in raw mode. */
const END = ['q', 'Q', '\u0003'];

/** A terminal whose text is replaced again and again, until its user presses q or Ctrl-C. */
export class Screen {
  readonly #streams: Streams;
  readonly #ended = new AbortController();

  constructor(streams: Streams) {
    this.#streams = streams;
    const { stdin } = streams;
    if (!stdin.isTTY) return;
    stdin.setRawMode(true);
    stdin.on('data', this.#onKeys);
    stdin.resume();
  }

  /** Aborts when the user ends it. */
  get ended(): AbortSignal {
    return this.#ended.signal;
  }

  /** Replaces the text by as many of the lines as fit. */
  show(lines: readonly string[]): void {
    const { stdout } = this.#streams;
    const fitting = lines.slice(0, stdout.rows - 1).map((line) => line.slice(0, stdout.columns) + CLEAR_LINE);
    stdout.write(`${HOME}${fitting.join('\r\n')}\r\n${CLEAR_BELOW}`);
  }

  close(): void {
    const { stdin } = this.#streams;
    if (!stdin.isTTY) return;
    stdin.off('data', this.#onKeys);
    stdin.setRawMode(false);
    stdin.pause();
  }

  readonly #onKeys = (keys: Buffer | string): void => {
    if (END.some((key) => keys.includes(key))) this.#ended.abort();
  };
}
