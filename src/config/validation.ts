import { factsOf } from '../base/proxy-mode.ts';
import { formatDuration } from '../base/duration.ts';
import type { SettingKey } from './flags/flag-table.ts';
import { isInForce, syncSection } from './mode-section.ts';
import { SETTING_KEYS, type Settings, settingAt } from './flags/settings.ts';

/** An error in the value of a setting. */
export interface Problem {
  readonly key: SettingKey;
  /** Index of the invalid item, if the value is a list. */
  readonly index?: number;
  /** The error and its fix, without a final period. */
  readonly text: string;
}

function problemsOf(key: SettingKey, value: unknown): Problem[] {
  const setting = settingAt(key);
  const items: readonly unknown[] = Array.isArray(value) ? value : [];
  return [
    ...items.flatMap((item, index) =>
      [setting.checkEach?.(item as never) ?? []].flat().map((text) => ({ key, index, text })),
    ),
    ...[setting.check?.(value) ?? []].flat().map((text) => ({ key, text })),
  ];
}

/** Returns the errors of settings that depend on each other. */
function crossProblems(settings: Settings): Problem[] {
  const { detectLocalMode } = settings;
  const ofSync = syncSection(settings);
  const { [`${ofSync}.minSyncPeriod` as const]: minimum, [`${ofSync}.syncPeriod` as const]: period } = settings;
  const problems: Problem[] = [];
  if (settings['logging.format'] !== 'text' && settings['logging.vmodule'].length > 0) {
    problems.push({ key: 'logging.vmodule', text: 'works with logging.format text only' });
  }
  for (const [mode, key] of [
    ['BridgeInterface', 'detectLocal.bridgeInterface'],
    ['InterfaceNamePrefix', 'detectLocal.interfaceNamePrefix'],
  ] as const) {
    if (detectLocalMode !== mode || settings[key] !== '') continue;
    problems.push({ key, text: `is empty: detectLocalMode ${mode} needs it` });
  }
  if (period > 0 && minimum > period) {
    const text = `${formatDuration(minimum)} is above syncPeriod (${formatDuration(period)})`;
    problems.push({ key: `${ofSync}.minSyncPeriod`, text });
  }
  return problems;
}

/** Returns all errors. Like kube-proxy, validates what belongs to a mode only if it is in force. */
export function validate(settings: Settings): Problem[] {
  const isOfMode = (key: SettingKey): boolean =>
    isInForce(key, settings) && (factsOf(settings.mode)?.hasIpvs === true || !key.startsWith('ipvs.'));
  const keys = SETTING_KEYS.filter(isOfMode);
  return [...keys.flatMap((key) => problemsOf(key, settings[key])), ...crossProblems(settings)];
}
