/** The words of a line of nft, read one after the other. */
export class Words {
  readonly #words: readonly string[];
  #at = 0;

  constructor(text: string) {
    this.#words = Array.from(text.matchAll(/"(?:[^"\\]|\\.)*"|[^\s,]+|,/g), ([word]) => word);
  }

  get isAtEnd(): boolean {
    return this.#at >= this.#words.length;
  }

  next(): string {
    const word = this.#words[this.#at];
    if (word === undefined) throw new Error('the line ends too early');
    this.#at += 1;
    return word;
  }

  /** Reads these words if they are the next ones. */
  accept(...words: readonly string[]): boolean {
    if (!words.every((word, index) => this.#words[this.#at + index] === word)) return false;
    this.#at += words.length;
    return true;
  }

  expect(...words: readonly string[]): void {
    if (!this.accept(...words)) throw new Error(`"${this.peek()}" in place of "${words.join(' ')}"`);
  }

  peek(): string {
    return this.#words[this.#at] ?? 'end of line';
  }

  number(): number {
    const word = this.next();
    const value = Number(word);
    if (Number.isNaN(value)) throw new Error(`"${word}" is not a number`);
    return value;
  }

  /** Reads a list in braces, whose parts are separated by commas. */
  list<T>(read: () => T): readonly T[] {
    this.expect('{');
    const parts: T[] = [];
    while (!this.accept('}')) {
      parts.push(read());
      if (this.peek() !== '}') this.expect(',');
    }
    return parts;
  }
}
