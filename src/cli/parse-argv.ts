import { CommanderError } from 'commander';
import { type Flag, type SettingKey, flagNamed } from '../config/flags/flag-table.ts';
import { show } from '../config/value/problem.ts';
import type { GivenSettings } from '../config/flags/settings.ts';
import { flagProgram } from './flag-program.ts';
import { usageText } from './usage-text.ts';

/** The settings of a command line, or its errors. */
export type ParsedArgv =
  { readonly ok: true; readonly given: GivenSettings } | { readonly ok: false; readonly errors: readonly string[] };

/**
 * Rewrites what Kubernetes' flag parser accepts and ours does not: "_" for "-" in names, "--flag" for "--flag=true", and
 * "-v=2" for "-v2". An unknown flag loses its value, so that a similar name can be found.
 */
function normalized(argv: readonly string[]): string[] {
  const result: string[] = [];
  for (let at = 0; at < argv.length; at++) {
    const argument = argv[at] ?? '';
    if (argument === '--') return [...result, ...argv.slice(at)];
    const [, given, value] = /^--([^=]+)(=[^]*)?$/.exec(argument) ?? [];
    if (given === undefined) {
      result.push(argument === '-h' ? '--help=true' : argument.replace(/^-(\w)=/, '-$1'));
      continue;
    }
    const name = given.replaceAll('_', '-');
    const flag = flagNamed(name);
    if (flag === undefined) result.push(`--${name}`);
    else if (value !== undefined) result.push(`--${name}${value}`);
    else if (flag.kind.bare !== undefined) result.push(`--${name}=${flag.kind.bare}`);
    // The next argument is the value, whatever it looks like.
    else result.push(`--${name}`, ...argv.slice(++at, at + 1));
  }
  return result;
}

/** Returns the flags of a command line and the unparsed texts of their values. Throws a CommanderError. */
function flagTexts(argv: readonly string[]): { texts: [Flag, string][]; operands: readonly string[] } {
  const texts: [Flag, string][] = [];
  const program = flagProgram({ take: (flag, text) => void texts.push([flag, text]) });
  program.parse(normalized(argv), { from: 'user' });
  return { texts, operands: program.args };
}

/** Parses the command-line arguments, without the name of the program. Empty arguments are ignored, as kube-proxy does. */
export function parseArgv(argv: readonly string[]): ParsedArgv {
  const given = new Map<SettingKey, unknown>();
  const errors: string[] = [];
  try {
    const { texts, operands } = flagTexts(argv);
    const unexpected = operands.find((operand) => operand !== '');
    if (unexpected !== undefined) {
      errors.push(`unexpected argument ${JSON.stringify(unexpected)}: every setting is a flag that begins with "--"`);
    }
    for (const [{ name, key, kind, fallback }, text] of texts) {
      const isUnset = fallback === undefined && text === '';
      const value = isUnset ? undefined : kind.fromText(text);
      if (value === undefined && !isUnset) errors.push(`--${name}: want ${kind.expected}, got ${show(text)}`);
      else given.set(key, given.has(key) && kind.merge ? kind.merge(given.get(key), value) : value);
    }
  } catch (error) {
    if (error instanceof CommanderError) return { ok: false, errors: [`${usageText(error)}; see --help`] };
    throw error;
  }
  return errors.length > 0 ? { ok: false, errors } : { ok: true, given: Object.fromEntries(given) as GivenSettings };
}
