const NEWLINE = 0x0a;

/** Splits a stream of bytes into lines. Limits their length, so that an endless line cannot exhaust memory. */
export class LineSplitter {
  readonly #limit: number;
  #pieces: Uint8Array[] = [];
  #length = 0;

  constructor(limitBytes: number) {
    this.#limit = limitBytes;
  }

  /** Returns the non-empty lines that this chunk completes; undefined if a line exceeds the limit. */
  feed(chunk: Uint8Array): readonly string[] | undefined {
    const lines: string[] = [];
    let start = 0;
    for (;;) {
      const end = chunk.indexOf(NEWLINE, start);
      const piece = chunk.subarray(start, end === -1 ? chunk.length : end);
      if (this.#length + piece.length > this.#limit) return undefined;
      if (piece.length > 0) this.#pieces.push(piece);
      this.#length += piece.length;
      if (end === -1) return lines;
      const line = this.#take();
      if (line.trim() !== '') lines.push(line);
      start = end + 1;
    }
  }

  /** Returns the text after the last newline. At the end of the stream this is a truncated event. */
  rest(): string {
    return this.#take();
  }

  #take(): string {
    const [first] = this.#pieces;
    const bytes = this.#pieces.length === 1 && first !== undefined ? first : Buffer.concat(this.#pieces);
    this.#pieces = [];
    this.#length = 0;
    return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString('utf8');
  }
}
