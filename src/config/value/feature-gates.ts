import { factsOf } from '../../base/proxy-mode.ts';
import { nearestName } from './nearest.ts';
import type { FeatureGateSettings } from './value-kind.ts';

/** Stages as in the metric kubernetes_feature_enabled; "" means GA. */
export type GateStage = 'ALPHA' | 'BETA' | 'DEPRECATED' | '';

interface Gate {
  readonly stage: GateStage;
  readonly enabled: boolean;
  /** The feature has graduated, so its gate can no longer be changed. */
  readonly locked?: true;
}

/** The gates that kube-proxy 1.37 reads, those of its log and its metrics among them. */
const GATES: Readonly<Record<string, Gate>> = {
  AllAlpha: { stage: 'ALPHA', enabled: false },
  AllBeta: { stage: 'BETA', enabled: false },
  AllowServiceExternalIPs: { stage: '', enabled: true },
  ComponentFlagz: { stage: 'BETA', enabled: true },
  ComponentStatusz: { stage: 'BETA', enabled: true },
  ContextualLogging: { stage: 'BETA', enabled: true },
  KubeProxyIPVS: { stage: 'DEPRECATED', enabled: true },
  KubeProxyNFTablesLocalhostNodePorts: { stage: 'ALPHA', enabled: false },
  LoggingAlphaOptions: { stage: 'ALPHA', enabled: false },
  LoggingBetaOptions: { stage: 'BETA', enabled: true },
  MultiCIDRServiceAllocator: { stage: '', enabled: true, locked: true },
  NFTablesNetlink: { stage: 'BETA', enabled: true },
  NFTablesProxyMode: { stage: '', enabled: true, locked: true },
  NativeHistograms: { stage: 'BETA', enabled: true },
  PreferSameTrafficDistribution: { stage: '', enabled: true, locked: true },
  WinDSR: { stage: '', enabled: true, locked: true },
  WinOverlay: { stage: '', enabled: true, locked: true },
};

export const KNOWN_GATES: readonly string[] = Object.keys(GATES);

/** A gate with its effective state. */
export interface FeatureGate {
  readonly name: string;
  readonly stage: GateStage;
  readonly enabled: boolean;
}

/** Pattern of the names of Kubernetes feature gates. */
const GATE_NAME = /^[A-Z][A-Za-z0-9]{0,99}$/;

/** Returns an error for each setting whose name is malformed or whose gate is locked to the other value. */
export function gateProblems(settings: FeatureGateSettings): string[] {
  const problems: string[] = [];
  for (const [name, enabled] of Object.entries(settings)) {
    const gate = Object.hasOwn(GATES, name) ? GATES[name] : undefined;
    if (gate === undefined) {
      if (GATE_NAME.test(name)) continue;
      const meant = nearestName(name, KNOWN_GATES);
      const hint = meant === undefined ? 'want letters and digits, the first a capital' : `did you mean ${meant}?`;
      problems.push(`${JSON.stringify(name)} is not the name of a feature gate: ${hint}`);
    } else if (gate.locked && gate.enabled !== enabled) {
      problems.push(`feature gate ${name} is locked to ${gate.enabled}: drop it`);
    }
  }
  return problems;
}

/**
 * Returns a note that names all given gates that kube-proxy does not have, and one if kube-proxy would not start in this
 * mode. The former are not an error: administrators often pass the same gates to all components, and kube-proxy ignores
 * those of others.
 */
export function gateNotes(settings: FeatureGateSettings, mode: string): string[] {
  return [
    ...foreignNotes(settings),
    ...(factsOf(mode)?.hasIpvs === true && settings['KubeProxyIPVS'] === false ? [IPVS_GATE_OFF] : []),
  ];
}

const IPVS_GATE_OFF =
  'the feature gate KubeProxyIPVS is off, with which kube-proxy would not start in ipvs mode: kube-ipvs-proxy has an ' +
  'ipvs mode of its own, and serves it. To leave IPVS, set another mode';

function foreignNotes(settings: FeatureGateSettings): string[] {
  const foreign = Object.keys(settings).filter((name) => !Object.hasOwn(GATES, name));
  if (foreign.length === 0) return [];
  const named = foreign.map((name) => {
    // Gate names have words in common, so suggest a name only if nothing but its case differs.
    const meant = KNOWN_GATES.find((known) => known.toLowerCase() === name.toLowerCase());
    return meant === undefined ? name : `${name} (did you mean ${meant}?)`;
  });
  return [`feature gates of other components have no effect: ${named.join(', ')}`];
}

export function gateEnabled(gates: readonly FeatureGate[], name: string): boolean {
  return gates.some((gate) => gate.name === name && gate.enabled);
}

/** Returns all known gates. AllAlpha and AllBeta set the gates of their stage that are not set by name. */
export function resolveGates(settings: FeatureGateSettings): FeatureGate[] {
  const forStage: Record<GateStage, boolean | undefined> = {
    ALPHA: settings['AllAlpha'],
    BETA: settings['AllBeta'],
    DEPRECATED: undefined,
    '': undefined,
  };
  return Object.entries(GATES).map(([name, { stage, enabled }]) => ({
    name,
    stage,
    enabled: settings[name] ?? forStage[stage] ?? enabled,
  }));
}
