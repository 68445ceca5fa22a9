import { Command as Commander, CommanderError } from 'commander';
import { escapeUnprintable } from '../../base/text/escape-unprintable.ts';
import { type Terminal, versionText } from '../../cli/cli.ts';
import { usageText } from '../../cli/usage-text.ts';
import { addCommand } from './arguments.ts';
import type { Command, Given, Result } from '../command.ts';
import { addCompletion } from './completion.ts';
import { CONNECT } from '../connect.ts';
import { DIFF } from '../diff.ts';
import { EXPLAIN } from '../explain.ts';
import { FLEET_BUNDLE } from '../fleet/fleet-bundle.ts';
import { FLEET_CHECK } from '../fleet/fleet-check.ts';
import { FLEET_DIFF } from '../fleet/fleet-diff.ts';
import { FLEET_EXPLAIN } from '../fleet/fleet-explain.ts';
import { FLEET_SERVICES } from '../fleet/fleet-services.ts';
import { FLEET_STATUS } from '../fleet/fleet-status.ts';
import { FLEET_TOP } from '../fleet/fleet-top.ts';
import { COLUMNS, type Format, document } from '../output.ts';
import { PLAN } from '../plan.ts';
import type { Streams } from '../screen.ts';
import { SERVICES } from '../services.ts';
import { STATUS } from '../status.ts';
import { SUPPORT } from '../support.ts';
import { TOP } from '../top/top.ts';
import { UsageError } from '../usage-error.ts';

/** The subcommands by name. */
export const COMMANDS: Readonly<Record<string, Command>> = {
  status: STATUS,
  explain: EXPLAIN,
  services: SERVICES,
  top: TOP,
  diff: DIFF,
  plan: PLAN,
  support: SUPPORT,
  connect: CONNECT,
};

/** The subcommands of `fleet`, by name: they ask the daemons of many nodes, by kubectl. */
export const FLEET_COMMANDS: Readonly<Record<string, Command>> = {
  status: FLEET_STATUS,
  explain: FLEET_EXPLAIN,
  services: FLEET_SERVICES,
  diff: FLEET_DIFF,
  top: FLEET_TOP,
  check: FLEET_CHECK,
  bundle: FLEET_BUNDLE,
};

/** The lines printed between two results. */
const BETWEEN: Readonly<Record<Format, readonly string[]>> = { text: [''], json: [], yaml: ['---'] };

/**
 * Runs a subcommand, whose name is the first argument. Returns the exit code: 0 if all is as wanted, 1 if something is
 * wrong, 2 if the question could not be asked.
 */
export async function runCommand(argv: readonly string[], terminal: Terminal, streams?: Streams): Promise<number> {
  const end = argv.indexOf('--');
  const rest = end < 0 ? [] : argv.slice(end + 1);
  // As kubectl accepts it: -o=json.
  const own = (end < 0 ? argv : argv.slice(0, end)).map((argument) => argument.replace(/^-([a-z])=/, '-$1'));
  let code = 0;
  const program = rootCommand(terminal);
  const addAll = (parent: Commander, commands: Readonly<Record<string, Command>>): void => {
    for (const [name, command] of Object.entries(commands)) {
      addCommand(parent, name, command, rest, async (given) => {
        code = await answer(command, given, terminal, streams);
      });
    }
  };
  addAll(program, COMMANDS);
  const fleet = program
    .command('fleet')
    .usage('SUBCOMMAND [options]')
    .description('Asks the daemons of many nodes, by kubectl: the plugin kubectl ipvs-proxy.')
    .helpOption('-h, --help', 'print this help');
  addAll(fleet, FLEET_COMMANDS);
  addCompletion(program, terminal);
  program
    .command('version')
    .description('Prints the version.')
    .action(() => terminal.out(versionText('true')));
  try {
    await program.parseAsync(own, { from: 'user' });
    return code;
  } catch (error) {
    // Help was asked for, and has been printed.
    if (error instanceof CommanderError && error.exitCode === 0) return 0;
    if (error instanceof CommanderError && error.code === 'commander.help') {
      terminal.err('kube-ipvs-proxy: fleet needs a subcommand: see kube-ipvs-proxy fleet --help');
      return 2;
    }
    if (!(error instanceof UsageError) && !(error instanceof CommanderError)) throw error;
    terminal.err(
      `kube-ipvs-proxy: ${error instanceof CommanderError ? `${usageText(error)}; see kube-ipvs-proxy help` : error.message}`,
    );
    return 2;
  }
}

function rootCommand(terminal: Terminal): Commander {
  return new Commander('kube-ipvs-proxy')
    .usage('SUBCOMMAND [options]')
    .description('Asks the daemon of this node. The flags of the daemon: kube-ipvs-proxy --help')
    .helpOption(false)
    .exitOverride()
    .configureOutput({ writeOut: (text) => terminal.out(text.trimEnd()), writeErr: () => undefined })
    .configureHelp({ helpWidth: COLUMNS });
}

/** Runs a subcommand and prints its results. Returns 0 if all is as wanted, and otherwise 1. */
async function answer(command: Command, given: Given, terminal: Terminal, streams?: Streams): Promise<number> {
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
}
