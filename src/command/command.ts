import { escapeUnprintable } from '../base/escape-unprintable.ts';
import type { Terminal } from '../cli/cli.ts';
import type { Reply } from '../explain/replies.ts';
import { COMMON, type Given, type Option, parseCommandArguments } from './arguments.ts';
import { DIFF } from './diff.ts';
import { EXPLAIN } from './explain.ts';
import { type Format, aligned, document, wrapped } from './output.ts';
import { PLAN } from './plan.ts';
import type { Streams } from './screen.ts';
import { STATUS } from './status.ts';
import { TOP } from './top.ts';
import { UsageError } from './usage-error.ts';

/** What a subcommand has to say: the reply for programs, and the same in lines for people. */
export interface Result {
  readonly reply: Reply<string>;
  readonly lines: readonly string[];
}

export interface Command {
  /** The name and its arguments. */
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

/** The subcommands by name. */
export const COMMANDS: Readonly<Record<string, Command>> = {
  status: STATUS,
  explain: EXPLAIN,
  top: TOP,
  diff: DIFF,
  plan: PLAN,
};

/** What stands between two results: JSON documents need nothing. */
const BETWEEN: Readonly<Record<Format, readonly string[]>> = { text: [''], json: [], yaml: ['---'] };

/**
 * Runs a subcommand, whose name is the first argument. Returns the exit code: 0 if all is as wanted, 1 if something is
 * wrong, 2 if the question could not be asked.
 */
export async function runCommand(
  [name = '', ...argv]: readonly string[],
  terminal: Terminal,
  streams?: Streams,
): Promise<number> {
  try {
    const command = Object.hasOwn(COMMANDS, name) ? COMMANDS[name] : undefined;
    if (command === undefined) throw new UsageError(unknown(name));
    const given = parseCommandArguments(argv, command.options);
    if (given.help) {
      terminal.out(helpText(command));
      return 0;
    }
    const surplus = [
      ...(command.takes === 'arguments' ? [] : given.positionals),
      ...(command.takes === 'flags' ? [] : given.rest),
    ];
    if (surplus.length > 0) {
      throw new UsageError(`${name} takes options only, got ${JSON.stringify(surplus[0])}: see ${name} --help`);
    }
    const { format } = given;
    const print = async ({ reply, lines }: Result): Promise<void> => {
      if (format !== 'text') terminal.out(await document(reply, format));
      else if (lines.length > 0) terminal.out(lines.map(escapeUnprintable).join('\n'));
    };
    const result = await command.run(given, {
      ...(streams?.stdout.isTTY === true ? { terminal: streams } : {}),
      show: async (each) => {
        await print(each);
        for (const line of BETWEEN[format]) terminal.out(line);
      },
    });
    await print(result);
    return result.reply.ok ? 0 : 1;
  } catch (error) {
    if (!(error instanceof UsageError)) throw error;
    terminal.err(`kube-ipvs-proxy: ${error.message}`);
    return 2;
  }
}

function unknown(name: string): string {
  const names = Object.keys(COMMANDS).join(', ');
  return `unknown subcommand ${JSON.stringify(name)}: want one of ${names}, or flags, which begin with "--"`;
}

function helpText({ usage, summary, options }: Command): string {
  const rows = Object.entries({ ...options, ...COMMON }).map(([name, { short, hint, help }]) => [
    `${short === undefined ? '    ' : `-${short}, `}--${name} <${hint}>`,
    help,
  ]);
  return [
    `Usage: kube-ipvs-proxy ${usage} [options]`,
    '',
    ...wrapped(`Prints ${summary}.`),
    '',
    ...aligned(rows),
    '',
    'Exit codes: 0 all is as wanted, 1 something is wrong, 2 the question could not be asked.',
  ].join('\n');
}
