import { factsOf } from '../base/proxy-mode.ts';
import { DEFAULTS, type Settings, settingAt, SETTING_KEYS } from './flags/settings.ts';
import { textOf } from './flags/setting.ts';
import type { SettingKey } from './flags/flag-table.ts';
import { masqueradeSection } from './mode-section.ts';
import type { OwnFields } from './own-document.ts';
import type { ProxyConfig } from './proxy-config.ts';

/** Settings that are for IPVS. Not `ipvs.excludeCIDRs`: while another mode retires ipvs mode, it leaves those addresses alone. */
const OF_IPVS: ReadonlySet<SettingKey> = new Set<SettingKey>([
  'ipvs.scheduler',
  'ipvs.strictARP',
  'ipvs.tcpTimeout',
  'ipvs.tcpFinTimeout',
  'ipvs.udpTimeout',
  'localRouteCidrs',
  'prepareDirectPods',
  'podNamespaceFolder',
  'runEstimation',
  'endpointCheck',
  'serviceAnnotations',
  'serviceMetrics',
  'serviceMetricsSelector',
  'serviceMetricsLimit',
  'serviceMetricsRealServers',
]);

export function modeNotes(settings: Settings, { serviceDefaults = [] }: OwnFields): string[] {
  const { mode } = settings;
  const facts = factsOf(mode);
  if (facts === undefined || facts.hasIpvs) return [];
  const hasAnnotations = facts.annotations?.length !== 0;
  const hasNoEffect = (key: SettingKey): boolean =>
    (OF_IPVS.has(key) && !(key === 'serviceAnnotations' && hasAnnotations)) ||
    (key === 'unboundCidrs' && !facts.closesOtherPorts);
  const given = SETTING_KEYS.filter((key) => hasNoEffect(key) && isGiven(key, settings));
  const names = [
    ...given.map((key) => (settingAt(key).name === undefined ? key : `--${settingAt(key).name}`)),
    ...(serviceDefaults.length === 0 || hasAnnotations ? [] : ['serviceDefaults']),
  ];
  if (names.length === 0) return [];
  const choice = facts.chooses === 'rr' ? 'in turn' : 'at random';
  return [`no effect in ${mode} mode, which has no IPVS and chooses endpoints ${choice}: ${names.join(', ')}`];
}

function isGiven(key: SettingKey, settings: Settings): boolean {
  const setting = settingAt(key);
  return textOf(setting, settings[key]) !== textOf(setting, DEFAULTS[key]);
}

/** Returns the fields whose values differ in modes without IPVS. */
export function modeFields(settings: Settings): Partial<ProxyConfig> {
  const section = masqueradeSection(settings);
  const { chooses = 'random', annotations = [] } = factsOf(settings.mode) ?? {};
  return {
    scheduler: chooses,
    syncPeriod: settings[`${section}.syncPeriod`],
    minSyncPeriod: settings[`${section}.minSyncPeriod`],
    masqueradeAll: settings[`${section}.masqueradeAll`],
    masqueradeBit: settings[`${section}.masqueradeBit`],
    strictArp: false,
    ipvsTimeouts: { tcp: 0, tcpFin: 0, udp: 0 },
    localRouteCidrs: [],
    prepareDirectPods: false,
    runEstimation: undefined,
    endpointCheck: 'off',
    serviceAnnotations: settings.serviceAnnotations.filter((name) => annotations.includes(name)),
    serviceMetrics: false,
    serviceMetricsSelector: undefined,
  };
}
