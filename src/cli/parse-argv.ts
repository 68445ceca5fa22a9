import { CommanderError } from 'commander';
import { FLAGS, flagNamed } from '../config/flag-table.ts';
import { type FlagValues, readFlagValues } from '../config/flag-values.ts';
import { nearest } from '../config/nearest.ts';
import { readingCommand } from './command.ts';

/** A command line, read: the values of its flags, or what is wrong with it. */
export type ParsedArgv =
  { readonly ok: true; readonly flags: FlagValues } | { readonly ok: false; readonly errors: readonly string[] };

const SHORT = new Map(FLAGS.flatMap(({ name, short }) => (short === undefined ? [] : [[short, name]])));

/** What a typing error may have meant; what is gone is not worth a hint. */
const SUGGESTED = FLAGS.filter(({ ignored }) => ignored === undefined).map(({ name }) => name);

function unknownFlag(given: string, name: string): string {
  const meant = name.length > 1 ? nearest(name, SUGGESTED) : undefined;
  return `unknown flag ${given}: ${meant === undefined ? 'see --help for all there are' : `did you mean --${meant}?`}`;
}

function refuse(error: string): ParsedArgv {
  return { ok: false, errors: [error] };
}

/**
 * One argument in the words of Kubernetes' flag library, brought into a form that leaves nothing to guess: "_" in names is "-", a switch
 * without a value is "=true", "-v=2" is "--v=2". An error is returned as text.
 */
function normalise(argument: string): readonly string[] | { readonly error: string } {
  const parts = /^--([^=]+)(?:=([^]*))?$/.exec(argument);
  if (parts !== null) {
    const name = (parts[1] ?? '').replaceAll('_', '-');
    const flag = flagNamed(name);
    if (flag === undefined) return { error: unknownFlag(`--${parts[1]}`, name) };
    const value = parts[2] ?? flag.bare;
    return [value === undefined ? `--${name}` : `--${name}=${value}`];
  }
  const short = argument[1] ?? '';
  const name = SHORT.get(short);
  if (name === undefined) return { error: unknownFlag(argument, argument.replace(/^-+/, '').replace(/=.*$/, '')) };
  const rest = argument.slice(2).replace(/^=/, '');
  const value = rest === '' ? flagNamed(name)?.bare : rest;
  return [value === undefined ? `--${name}` : `--${name}=${value}`];
}

function takesNextArgument(normalised: string): boolean {
  return !normalised.includes('=');
}

/** The arguments for commander, or the first that cannot be read. */
function normaliseAll(argv: readonly string[]): string[] | { readonly error: string } {
  const result: string[] = [];
  for (let i = 0; i < argv.length; i++) {
    const argument = argv[i] ?? '';
    if (argument === '--') {
      const extra = argv[i + 1];
      return extra === undefined ? result : { error: unexpected(extra) };
    }
    if (!argument.startsWith('-') || argument === '-') return { error: unexpected(argument) };
    const normalised = normalise(argument);
    if ('error' in normalised) return normalised;
    const [flag = ''] = normalised;
    const next = argv[i + 1];
    if (!takesNextArgument(flag)) result.push(flag);
    else if (next === undefined) return { error: `${flag} needs a value` };
    else {
      result.push(`${flag}=${next}`);
      i++;
    }
  }
  return result;
}

function unexpected(argument: string): string {
  return `unexpected argument ${JSON.stringify(argument)}: every setting is a flag that begins with "--"`;
}

/** Reads the arguments behind the program's name. */
export function parseArgv(argv: readonly string[]): ParsedArgv {
  const normalised = normaliseAll(argv);
  if ('error' in normalised) return refuse(normalised.error);
  const given: [string, string][] = [];
  try {
    readingCommand((name, text) => given.push([name, text])).parse(normalised, { from: 'user' });
  } catch (error) {
    if (error instanceof CommanderError) return refuse(error.message.replace(/^error: /, ''));
    throw error;
  }
  const { values, errors } = readFlagValues(given);
  return errors.length > 0 ? { ok: false, errors } : { ok: true, flags: values };
}
