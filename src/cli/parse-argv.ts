import { FLAGS, type Flag, type SettingKey, flagNamed } from '../config/flag-table.ts';
import { nearest } from '../config/nearest.ts';
import { show } from '../config/problem.ts';
import type { GivenSettings } from '../config/settings.ts';

/** The settings of a command line, or its errors. */
export type ParsedArgv =
  { readonly ok: true; readonly given: GivenSettings } | { readonly ok: false; readonly errors: readonly string[] };

/** An unknown argument or a missing value. Parsing stops, because the following arguments are ambiguous. */
class ArgumentError extends Error {}

/** Flags to suggest for a mistyped name. Flags without effect are not suggested. */
const SUGGESTED = FLAGS.filter(({ ignored }) => ignored === undefined).map(({ name }) => name);

function advice(name: string): string {
  const meant = name.length > 1 ? nearest(name, SUGGESTED) : undefined;
  return meant === undefined ? 'see --help for the list of flags' : `did you mean --${meant}?`;
}

function unexpected(argument: string): ArgumentError {
  return new ArgumentError(
    `unexpected argument ${JSON.stringify(argument)}: every setting is a flag that begins with "--"`,
  );
}

/** Splits "--name", "--name=value", "-v", "-v2" and "-v=2". A "_" in a name means "-", as in Kubernetes. */
function split(argument: string): { readonly flag: Flag; readonly text: string | undefined } {
  if (!argument.startsWith('-') || argument === '-') throw unexpected(argument);
  const [, given, text] = /^--([^=]+)(?:=([^]*))?$/.exec(argument) ?? [];
  if (given !== undefined) {
    const name = given.replaceAll('_', '-');
    const flag = flagNamed(name);
    if (flag === undefined) throw new ArgumentError(`unknown flag --${given}: ${advice(name)}`);
    return { flag, text };
  }
  const flag = FLAGS.find(({ short }) => short === argument[1]);
  if (flag === undefined) {
    throw new ArgumentError(`unknown flag ${argument}: ${advice(argument.replace(/^-+/, '').replace(/=.*$/, ''))}`);
  }
  return { flag, text: argument.slice(2).replace(/^=/, '') || undefined };
}

/** Returns the flags of a command line and the unparsed texts of their values. Empty arguments are ignored, as in kube-proxy. */
function flagTexts(argv: readonly string[]): [flag: Flag, text: string][] {
  const rest = [...argv];
  const result: [Flag, string][] = [];
  for (let argument = rest.shift(); argument !== undefined; argument = rest.shift()) {
    if (argument === '--') {
      const surplus = rest.find(isNotEmpty);
      if (surplus !== undefined) throw unexpected(surplus);
      break;
    }
    if (!isNotEmpty(argument)) continue;
    const { flag, text } = split(argument);
    const value = text ?? flag.kind.bare ?? rest.shift();
    if (value === undefined) throw new ArgumentError(`--${flag.name} needs a value`);
    result.push([flag, value]);
  }
  return result;
}

export function isNotEmpty(argument: string): boolean {
  return argument !== '';
}

/** Parses the command-line arguments, without the name of the program. */
export function parseArgv(argv: readonly string[]): ParsedArgv {
  const given = new Map<SettingKey, unknown>();
  const errors: string[] = [];
  try {
    for (const [{ name, key, kind, fallback }, text] of flagTexts(argv)) {
      const isUnset = fallback === undefined && text === '';
      const value = isUnset ? undefined : kind.fromText(text);
      if (value === undefined && !isUnset) errors.push(`--${name}: want ${kind.expected}, got ${show(text)}`);
      else given.set(key, given.has(key) && kind.merge ? kind.merge(given.get(key), value) : value);
    }
  } catch (error) {
    if (error instanceof ArgumentError) return { ok: false, errors: [error.message] };
    throw error;
  }
  return errors.length > 0 ? { ok: false, errors } : { ok: true, given: Object.fromEntries(given) as GivenSettings };
}
