import { createHash } from 'node:crypto';
import { compareText } from '../base/text/compare-text.ts';
import type { SettingKey } from './flags/flag-table.ts';
import type { ProxyConfig } from './proxy-config.ts';

/** What each node has its own of. */
const OF_NODE: ReadonlySet<SettingKey> = new Set<SettingKey>(['hostnameOverride', 'bindAddress']);
const HEX_DIGITS = 12;

/** Returns the start of a hash of the settings that nodes of one cluster should have in common. */
export function configurationHash({ settings, ownFields }: Pick<ProxyConfig, 'settings' | 'ownFields'>): string {
  const common = Object.entries(settings)
    .filter(([key]) => !OF_NODE.has(key as SettingKey))
    .toSorted(([a], [b]) => compareText(a, b));
  const text = JSON.stringify([common, ownFields], (_key, value: unknown) =>
    typeof value === 'bigint' ? String(value) : value,
  );
  return createHash('sha256').update(text).digest('hex').slice(0, HEX_DIGITS);
}
