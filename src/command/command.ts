import type { Terminal } from '../cli/cli.ts';
import type { Reply } from '../explain/replies.ts';
import { COMMON, type Given, type Option, parseCommandArguments } from './arguments.ts';
import { DIFF } from './diff.ts';
import { EXPLAIN } from './explain.ts';
import { aligned, document, wrapped } from './output.ts';
import { PLAN } from './plan.ts';
import { STATUS } from './status.ts';
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
  run(given: Given): Promise<Result>;
}

const COMMANDS: Readonly<Record<string, Command>> = { status: STATUS, explain: EXPLAIN, diff: DIFF, plan: PLAN };

/**
 * Runs a subcommand, whose name is the first argument. Returns the exit code: 0 if all is as wanted, 1 if something is
 * wrong, 2 if the question could not be asked.
 */
export async function runCommand([name = '', ...argv]: readonly string[], terminal: Terminal): Promise<number> {
  try {
    const command = Object.hasOwn(COMMANDS, name) ? COMMANDS[name] : undefined;
    if (command === undefined) throw new UsageError(unknown(name));
    const given = parseCommandArguments(argv, command.options);
    if (given.help) {
      terminal.out(helpText(command));
      return 0;
    }
    const { reply, lines } = await command.run(given);
    terminal.out(given.format === 'text' ? lines.join('\n') : await document(reply, given.format));
    return reply.ok ? 0 : 1;
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
