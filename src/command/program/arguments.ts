import { type Command as Commander, Option as CommanderOption, InvalidArgumentError } from 'commander';
import { OWN_FLAGS } from '../../config/flags/own-flags.ts';
import { FORMATS } from '../output.ts';
import { UsageError } from '../usage-error.ts';
import type { Command, Given, Option } from '../command.ts';

const AFTER_HELP = '\nExit codes: 0 all is as wanted, 1 something is wrong, 2 the question could not be asked.';

/** The options of every subcommand that asks a question. */
const COMMON: Readonly<Record<string, Option>> = {
  output: { short: 'o', hint: FORMATS.join('|'), help: 'form of the output; text by default', choices: FORMATS },
  'query-socket': { hint: 'path', help: `socket of the daemon; ${OWN_FLAGS.querySocket.fallback} by default` },
};

/** The options of a subcommand by name, its own ones first. */
function optionsOf({ options }: Pick<Command, 'options'>): Readonly<Record<string, Option>> {
  return { ...options, ...COMMON };
}

/** Adds a subcommand. `run` gets its arguments; `rest` are those after `--`, which the parser must not see. */
export function addCommand(
  program: Commander,
  name: string,
  command: Command,
  rest: readonly string[],
  run: (given: Given) => Promise<void>,
): void {
  const { usage, summary, takes } = command;
  const added = program
    .command(name)
    .usage(usage)
    .description(`Prints ${summary}.`)
    .helpOption('-h, --help', 'print this help')
    .addHelpText('after', AFTER_HELP);
  if (takes === 'arguments') added.argument('[target...]');
  else added.allowExcessArguments(false);
  for (const [long, option] of Object.entries(optionsOf(command))) added.addOption(commanderOption(long, option));
  added.action(async () => {
    if (takes !== 'flags' && rest.length > 0) throw new UsageError(`${name} takes no flags after "--"`);
    await run({ ...givenOf(added), rest });
  });
}

function givenOf(added: Commander): Omit<Given, 'rest'> {
  const values: Given['values'] = Object.fromEntries(
    added.options.map((option) => [option.name(), added.getOptionValue(option.attributeName()) as string | undefined]),
  );
  return {
    format: FORMATS.find((each) => each === values['output']) ?? 'text',
    querySocket: values['query-socket'] ?? OWN_FLAGS.querySocket.fallback,
    values,
    positionals: added.args,
  };
}

function commanderOption(long: string, { short, hint, help, choices }: Option): CommanderOption {
  const flags = `${short === undefined ? '' : `-${short}, `}--${long}`;
  if (hint === undefined) return new CommanderOption(flags, help).preset('given');
  const option = new CommanderOption(`${flags} <${hint}>`, help);
  return option.argParser((text, earlier) => {
    if (earlier !== undefined) throw new InvalidArgumentError('It is given twice.');
    if (choices?.includes(text) === false) throw new InvalidArgumentError(`Want ${choices.join(', ')}.`);
    if (text === '') throw new InvalidArgumentError('It is empty.');
    return text;
  });
}
