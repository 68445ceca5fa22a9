import { open } from 'node:fs/promises';

/** Reads a file of JSON lines while another program appends to it. */
export class LineFollower<T> {
  readonly #file: string;
  #offset = 0;
  #rest = '';

  constructor(file: string) {
    this.#file = file;
  }

  /** The lines that have been completed since the last call. */
  async read(): Promise<T[]> {
    const lines = (this.#rest + (await this.#appended())).split('\n');
    this.#rest = lines.pop() ?? '';
    return lines.map((line) => JSON.parse(line) as T);
  }

  /** Returns '' while there is no file. Only ASCII is written, so that a read never ends within a character. */
  async #appended(): Promise<string> {
    await using file = await open(this.#file, 'r').catch(() => undefined);
    if (file === undefined) return '';
    const { size } = await file.stat();
    const { bytesRead, buffer } = await file.read(Buffer.alloc(size - this.#offset), 0, null, this.#offset);
    this.#offset += bytesRead;
    return buffer.toString('latin1', 0, bytesRead);
  }
}
