/** The problem of a required attribute that the message does not contain; `offset` is where its attributes begin. */
export const MISSING = 'the required attribute is missing';

/** The kernel's bytes do not match the expected layout. `offset` counts from the start of the decoded bytes. */
export class DecodeError extends Error {
  /** The attribute (header constant) or structure that could not be read. */
  readonly what: string;
  readonly offset: number;

  constructor(what: string, offset: number, problem: string) {
    super(`${what} at byte ${offset}: ${problem}`);
    this.name = 'DecodeError';
    this.what = what;
    this.offset = offset;
  }
}
