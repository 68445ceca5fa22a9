import { parseArgs } from 'node:util';
import { errorText } from '../base/error-text.ts';
import { OWN_FLAGS } from '../config/own-flags.ts';
import { FORMATS, type Format } from './output.ts';
import { UsageError } from './usage-error.ts';

/** An option of a subcommand. */
export interface Option {
  readonly short?: string;
  /** Placeholder of the value. */
  readonly hint: string;
  readonly help: string;
}

/** What was given on the command line. */
export interface Given {
  readonly format: Format;
  readonly querySocket: string;
  readonly help: boolean;
  /** Values of the subcommand's own options, by name. */
  readonly values: Readonly<Record<string, string | undefined>>;
  readonly positionals: readonly string[];
  /** The arguments after `--`. */
  readonly rest: readonly string[];
}

/** The options of every subcommand. */
export const COMMON: Readonly<Record<string, Option>> = {
  output: { short: 'o', hint: FORMATS.join('|'), help: 'form of the output; text by default' },
  'query-socket': { hint: 'path', help: `socket of the daemon; ${OWN_FLAGS.querySocket.fallback} by default` },
};

/** Parses the arguments after the name of the subcommand. Throws a UsageError. */
export function parseCommandArguments(argv: readonly string[], own: Readonly<Record<string, Option>>): Given {
  const end = argv.indexOf('--');
  const options = Object.fromEntries(
    Object.entries({ ...COMMON, ...own }).map(([name, { short }]) => [
      name,
      { type: 'string' as const, ...(short === undefined ? {} : { short }) },
    ]),
  );
  const { values, positionals } = parsedOrThrow(end < 0 ? argv : argv.slice(0, end), options);
  const { help, output = 'text', 'query-socket': querySocket, ...others } = values;
  const format = FORMATS.find((each) => each === output);
  if (format === undefined) throw new UsageError(`--output: want ${FORMATS.join(', ')}, got ${JSON.stringify(output)}`);
  return {
    format,
    querySocket: typeof querySocket === 'string' ? querySocket : OWN_FLAGS.querySocket.fallback,
    help: help === true,
    values: others as Given['values'],
    positionals,
    rest: end < 0 ? [] : argv.slice(end + 1),
  };
}

type ValueOptions = Record<string, { readonly type: 'string'; readonly short?: string }>;

function parsedOrThrow(args: readonly string[], options: ValueOptions) {
  try {
    const { values, positionals, tokens } = parseArgs({
      // As kubectl accepts it: -o=json.
      args: args.map((arg) => arg.replace(/^-([a-z])=/, '-$1')),
      options: { ...options, help: { type: 'boolean', short: 'h' } },
      allowPositionals: true,
      tokens: true,
    });
    const names = tokens.flatMap((token) => (token.kind === 'option' ? [token.name] : []));
    const twice = names.find((name, at) => names.indexOf(name) < at);
    if (twice !== undefined) throw new UsageError(`--${twice} is given twice`);
    return { values: values as Readonly<Record<string, string | boolean | undefined>>, positionals };
  } catch (error) {
    const [sentence = ''] = errorText(error).split(/\. |\n/);
    throw new UsageError(sentence);
  }
}
