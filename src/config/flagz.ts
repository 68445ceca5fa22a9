import { FLAGS } from './flags/flag-table.ts';
import type { ProxyConfig } from './proxy-config.ts';
import { textOf } from './flags/setting.ts';

/** Returns the lines of /flagz, sorted: each flag as "name=value" with the effective value of the setting. */
export function flagz({ settings }: Pick<ProxyConfig, 'settings'>): string[] {
  return FLAGS.toSorted((a, b) => (a.name < b.name ? -1 : 1)).map(
    (flag) => `${flag.name}=${textOf(flag, settings[flag.key])}`,
  );
}
