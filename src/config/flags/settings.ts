import { SETTINGS, type SettingKey } from './flag-table.ts';
import type { Field, Setting, ValuesOf } from './setting.ts';

/** The value of each setting by its key. */
export type Settings = ValuesOf<typeof SETTINGS>;

export type GivenSettings = Partial<Settings>;

/** Path of a field of KubeProxyConfiguration v1alpha1. */
export type FieldPath = { [K in SettingKey]: (typeof SETTINGS)[K] extends Field<unknown> ? K : never }[SettingKey];

/** The fields of the section `Prefix`, with the prefix removed from their paths. */
export type Section<Prefix extends string> = {
  readonly [P in FieldPath as P extends `${Prefix}.${infer Rest}` ? Rest : never]: Settings[P];
};

/** Returns the setting without its exact type, for code that iterates over all settings. */
export function settingAt(key: SettingKey): Setting<unknown> {
  return SETTINGS[key];
}

export const SETTING_KEYS = Object.keys(SETTINGS) as readonly SettingKey[];

export const FIELD_PATHS = SETTING_KEYS.filter((key) => settingAt(key).inFile) as readonly FieldPath[];

export function isFieldPath(path: string): path is FieldPath {
  return Object.hasOwn(SETTINGS, path) && SETTINGS[path as SettingKey].inFile;
}

/** The defaults for the empty mode. */
export const DEFAULTS = Object.fromEntries(SETTING_KEYS.map((key) => [key, SETTINGS[key].fallback])) as Settings;

export function section<Prefix extends string>(settings: Settings, prefix: Prefix): Section<Prefix> {
  const paths = FIELD_PATHS.filter((path) => path.startsWith(`${prefix}.`));
  return Object.fromEntries(paths.map((path) => [path.slice(prefix.length + 1), settings[path]])) as Section<Prefix>;
}
