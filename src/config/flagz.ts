import { FLAGS } from './flag-table.ts';
import type { Flag } from './flag.ts';
import { kindOfFlag } from './flag-values.ts';
import type { ProxyConfig } from './proxy-config.ts';

type Values = Pick<ProxyConfig, 'fields' | 'given'>;

function textOf(flag: Flag, { fields, given }: Values): string {
  const value = flag.field === undefined ? given.get(flag.name) : fields[flag.field];
  return value === undefined ? flag.default : kindOfFlag(flag).toText(value);
}

/**
 * What /flagz lists: each flag as "name=value", by name. A flag with a field has the field's value, which the file may have set; any
 * other what was given, or its default. Values are those of the start.
 */
export function flagz(values: Values): string[] {
  const flags = FLAGS.toSorted((a, b) => (a.name < b.name ? -1 : 1));
  return flags.map((flag) => `${flag.name}=${textOf(flag, values)}`);
}
