import type { Reply } from '../explain/replies.ts';
import type { Format } from './output.ts';
import type { Streams } from './screen.ts';

/** An option of a subcommand. It may be given once. */
export interface Option {
  readonly short?: string;
  /** Placeholder of the value; an option without one is given or not. */
  readonly hint?: string;
  readonly help: string;
  /** The possible values; any but the empty text if absent. */
  readonly choices?: readonly string[];
}

/** The arguments and options on the command line. */
export interface Given {
  readonly format: Format;
  readonly querySocket: string;
  /** Values of the subcommand's own options, by name; of one without a value, "given". */
  readonly values: Readonly<Record<string, string | undefined>>;
  readonly positionals: readonly string[];
  /** The arguments after `--`. */
  readonly rest: readonly string[];
}

/** The result of a subcommand: the reply for programs, and the same in lines for people. */
export interface Result {
  readonly reply: object & Pick<Reply<string>, 'ok'>;
  readonly lines: readonly string[];
}

export interface Command {
  /** The arguments and options. */
  readonly usage: string;
  readonly summary: string;
  readonly options: Readonly<Record<string, Option>>;
  /** Whether it takes arguments, or flags of the daemon after `--`. Others are refused. */
  readonly takes?: 'arguments' | 'flags';
  run(given: Given, live: Live): Promise<Result>;
}

/** For a subcommand that has more than one result. */
export interface Live {
  /** Absent if standard output is no terminal. */
  readonly terminal?: Streams;
  /** Prints a result that is not the last one. */
  show(result: Result): Promise<void>;
}
