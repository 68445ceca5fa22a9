import { factsOf } from '../base/proxy-mode.ts';
import type { SettingKey } from './flags/flag-table.ts';
import { textOf } from './flags/setting.ts';
import { DEFAULTS, type GivenSettings, SETTING_KEYS, type Settings, settingAt } from './flags/settings.ts';

/** The sections of the configuration file that belong to a mode. */
export type ModeSection = 'ipvs' | 'iptables' | 'nftables';

/** The settings that more than one of these sections have: the section, and the name if it is a sync period. */
const SHARED = /^(ipvs|iptables|nftables)\.(?:(syncPeriod|minSyncPeriod)|masqueradeAll|masqueradeBit)$/;

type Choice = Pick<Settings, 'mode' | 'config'>;

/**
 * Returns the section whose sync periods are in force. As in kube-proxy, the flags of iptables mode are for nftables mode, too,
 * and a configuration file has a section for each.
 */
export function syncSection(settings: Choice): ModeSection {
  return factsOf(settings.mode)?.hasIpvs === false ? masqueradeSection(settings) : 'ipvs';
}

/** Returns the section whose masquerading is in force. In ipvs mode, it is that of iptables mode. */
export function masqueradeSection({ mode, config }: Choice): 'iptables' | 'nftables' {
  return config === undefined ? 'iptables' : (factsOf(mode)?.section ?? 'iptables');
}

/** Whether this mode uses the setting's section; true for a setting that only one section has. */
export function isInForce(key: SettingKey, settings: Choice): boolean {
  const [, section, syncPeriod] = SHARED.exec(key) ?? [];
  if (section === undefined) return true;
  return section === (syncPeriod === undefined ? masqueradeSection(settings) : syncSection(settings));
}

/** Returns a note that names the settings that were given in the section of another mode. */
export function sectionNotes(settings: Settings, given: GivenSettings): string[] {
  const { config } = settings;
  const others = SETTING_KEYS.filter((key) => !isInForce(key, settings));
  const names =
    config === undefined
      ? others.filter((key) => key in given).map((key) => `--${settingAt(key).name}`)
      : others.filter((key) => textOf(settingAt(key), settings[key]) !== textOf(settingAt(key), DEFAULTS[key]));
  if (names.length === 0) return [];
  const read = [...new Set([syncSection(settings), masqueradeSection(settings)])];
  const sections = `section${read.length > 1 ? 's' : ''} ${read.join(' and ')}`;
  const instead = config === undefined ? '' : `, which reads the ${sections} instead`;
  return [`no effect in ${settings.mode || 'ipvs'} mode${instead}: ${names.join(', ')}`];
}
