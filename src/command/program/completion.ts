import { type Command as Commander, Argument } from 'commander';
import type { Terminal } from '../../cli/cli.ts';
import { FLAGS } from '../../config/flags/flag-table.ts';

const SHELLS = ['bash', 'zsh', 'fish'] as const;
type Shell = (typeof SHELLS)[number];

/** Adds the subcommand that prints the words of all other ones, and the flags of the daemon, as a script for a shell. */
export function addCompletion(program: Commander, terminal: Terminal): void {
  program
    .command('completion')
    .description(
      'Prints a script that completes command lines in a shell: source <(kube-ipvs-proxy completion bash), or ' +
        'kube-ipvs-proxy completion fish | source',
    )
    .addArgument(new Argument('<shell>').choices(SHELLS))
    .helpOption('-h, --help', 'print this help')
    .action((shell: Shell) => {
      const words = program.commands.map((command) => ({
        name: command.name(),
        description: command.description(),
        options: optionsOf(command),
        subcommands: command.commands.map((each) => each.name()),
      }));
      terminal.out(shell === 'fish' ? fishScript(words) : bashScript(words, shell));
    });
}

interface Words {
  readonly name: string;
  readonly description: string;
  /** The options of a subcommand, and those of its own subcommands. */
  readonly options: readonly string[];
  readonly subcommands: readonly string[];
}

function optionsOf({ options, commands }: Commander): readonly string[] {
  return [...new Set([...options.map(({ long }) => long ?? ''), ...commands.flatMap(optionsOf)])];
}

function daemonFlags(): string[] {
  return FLAGS.filter(({ ignored }) => ignored === undefined).map(({ name }) => `--${name}`);
}

function bashScript(words: readonly Words[], shell: Shell): string {
  return [
    // zsh understands the functions of bash.
    ...(shell === 'zsh' ? ['autoload -U +X bashcompinit && bashcompinit'] : []),
    '_kube_ipvs_proxy() {',
    '  local words',
    '  case ${COMP_CWORD}:${COMP_WORDS[1]} in',
    `    1:-*) words="${daemonFlags().join(' ')}" ;;`,
    `    1:*) words="${words.map(({ name }) => name).join(' ')} help" ;;`,
    ...words.flatMap(({ name, subcommands }) =>
      subcommands.length === 0 ? [] : [`    2:${name}) words="${subcommands.join(' ')}" ;;`],
    ),
    ...words.map(({ name, options }) => `    *:${name}) words="${[...options, '--help'].join(' ')}" ;;`),
    `    *) words="${daemonFlags().join(' ')}" ;;`,
    '  esac',
    '  COMPREPLY=($(compgen -W "$words" -- "${COMP_WORDS[COMP_CWORD]}"))',
    '}',
    'complete -o default -F _kube_ipvs_proxy kube-ipvs-proxy',
  ].join('\n');
}

function fishScript(words: readonly Words[]): string {
  const line = (...parts: readonly string[]): string => ['complete -c kube-ipvs-proxy', ...parts].join(' ');
  return [
    ...words.map(({ name, description }) =>
      line('-n __fish_use_subcommand', `-a ${name}`, `-d '${description.replaceAll("'", String.raw`\'`)}'`),
    ),
    ...daemonFlags().map((flag) => line('-n __fish_use_subcommand', `-l ${flag.slice(2)}`)),
    ...words.flatMap(({ name, options, subcommands }) => [
      ...options.map((option) => line(`-n '__fish_seen_subcommand_from ${name}'`, `-l ${option.slice(2)}`)),
      ...subcommands.map((each) => line(`-n '__fish_seen_subcommand_from ${name}'`, `-a ${each}`)),
    ]),
  ].join('\n');
}
