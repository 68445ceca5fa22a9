import { StringDecoder } from 'node:string_decoder';

/** Splits a stream of bytes into lines. Limits their length, so that an endless line cannot exhaust memory. */
export class LineSplitter {
  readonly #limit: number;
  readonly #decoder = new StringDecoder('utf8');
  #rest = '';

  /** @param limit maximum number of characters of a line */
  constructor(limit: number) {
    this.#limit = limit;
  }

  /** Returns the non-empty lines that this chunk completes; undefined if a line exceeds the limit. */
  feed(chunk: Uint8Array): readonly string[] | undefined {
    const lines = this.#decoder.write(chunk).split('\n');
    lines[0] = this.#rest + (lines[0] ?? '');
    if (lines.some((line) => line.length > this.#limit)) return undefined;
    this.#rest = lines.pop() ?? '';
    return lines.filter((line) => line.trim() !== '');
  }

  /** Returns the text after the last newline. At the end of the stream this is a truncated event. */
  rest(): string {
    return this.#rest + this.#decoder.end();
  }
}
