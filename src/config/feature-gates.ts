import { nearest } from './nearest.ts';
import type { FeatureGateSettings } from './value-kind.ts';

/** Stages as in the metric kubernetes_feature_enabled; "" means GA. */
export type GateStage = 'ALPHA' | 'BETA' | '';

interface Gate {
  readonly stage: GateStage;
  readonly enabled: boolean;
  /** The feature has graduated, so its gate can no longer be changed. */
  readonly locked?: true;
}

/** The gates of kube-proxy's newest release. */
const GATES: Readonly<Record<string, Gate>> = {
  AllAlpha: { stage: 'ALPHA', enabled: false },
  AllBeta: { stage: 'BETA', enabled: false },
  ComponentFlagz: { stage: 'ALPHA', enabled: false },
  ComponentStatusz: { stage: 'ALPHA', enabled: false },
  ContextualLogging: { stage: 'BETA', enabled: true },
  KubeProxyIPVS: { stage: 'BETA', enabled: true },
  LoadBalancerIPMode: { stage: '', enabled: true, locked: true },
  LoggingAlphaOptions: { stage: 'ALPHA', enabled: false },
  LoggingBetaOptions: { stage: 'BETA', enabled: true },
  MultiCIDRServiceAllocator: { stage: '', enabled: true, locked: true },
  NFTablesProxyMode: { stage: '', enabled: true, locked: true },
  PreferSameTrafficDistribution: { stage: '', enabled: true, locked: true },
  ServiceTrafficDistribution: { stage: '', enabled: true, locked: true },
  TopologyAwareHints: { stage: '', enabled: true, locked: true },
  WinDSR: { stage: 'BETA', enabled: true },
  WinOverlay: { stage: 'BETA', enabled: true },
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
      const meant = nearest(name, KNOWN_GATES);
      const hint = meant === undefined ? 'want letters and digits, the first a capital' : `did you mean ${meant}?`;
      problems.push(`${JSON.stringify(name)} is not the name of a feature gate: ${hint}`);
    } else if (gate.locked && gate.enabled !== enabled) {
      problems.push(`feature gate ${name} is locked to ${gate.enabled}: drop it`);
    }
  }
  return problems;
}

/**
 * Returns one note that names all given gates that kube-proxy does not have; an empty list if there are none. These are
 * not an error: administrators often pass the same gates to all components, and kube-proxy ignores those of others.
 */
export function gateNotes(settings: FeatureGateSettings): string[] {
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
    '': undefined,
  };
  return Object.entries(GATES).map(([name, { stage, enabled }]) => ({
    name,
    stage,
    enabled: settings[name] ?? forStage[stage] ?? enabled,
  }));
}
