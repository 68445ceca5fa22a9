import { fieldAt } from './config-fields.ts';
import { flagNamed } from './flag-table.ts';
import type { Flag } from './flag.ts';
import { show } from './problem.ts';
import { type ValueKind, string } from './value-kind.ts';

/** The value of each flag that was given, by the flag's name. */
export type FlagValues = ReadonlyMap<string, unknown>;

export interface ReadFlags {
  readonly values: FlagValues;
  readonly errors: readonly string[];
}

export function kindOfFlag(flag: Flag): ValueKind<unknown> {
  return flag.field === undefined ? (flag.kind ?? string) : fieldAt(flag.field).kind;
}

/** Reads the texts of the flags that were given, in the order of the command line. */
export function readFlagValues(given: Iterable<readonly [name: string, text: string]>): ReadFlags {
  const values = new Map<string, unknown>();
  const errors: string[] = [];
  for (const [name, text] of given) {
    const flag = flagNamed(name);
    if (flag === undefined) {
      errors.push(`unknown flag --${name}`);
      continue;
    }
    const kind = kindOfFlag(flag);
    const value = kind.fromText(text);
    if (value === undefined) errors.push(`--${name}: want ${kind.expected}, got ${show(text)}`);
    else values.set(name, values.has(name) && kind.merge ? kind.merge(values.get(name), value) : value);
  }
  return { values, errors };
}

export function textFlag(flags: FlagValues, name: string): string {
  const value = flags.get(name);
  return typeof value === 'string' ? value : '';
}

export function boolFlag(flags: FlagValues, name: string): boolean {
  return flags.get(name) === true;
}

export function numberFlag(flags: FlagValues, name: string, fallback: number): number {
  const value = flags.get(name);
  return typeof value === 'number' ? value : fallback;
}

export function listFlag(flags: FlagValues, name: string): readonly string[] {
  const value = flags.get(name);
  return Array.isArray(value) ? value.filter((item) => typeof item === 'string') : [];
}
