import { nearest } from './nearest.ts';
import type { FeatureGateSettings } from './value-kind.ts';

/** ALPHA and BETA as upstream's kubernetes_feature_enabled writes them; GA is the empty word. */
export type GateStage = 'ALPHA' | 'BETA' | '';

interface Gate {
  readonly stage: GateStage;
  readonly enabled: boolean;
  /** A feature that has graduated can no longer be switched. */
  readonly locked?: true;
}

/** The gates that a configuration of kube-proxy may name, with the state of the newest release. */
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

/** The state of one gate after the settings were applied. */
export interface FeatureGate {
  readonly name: string;
  readonly stage: GateStage;
  readonly enabled: boolean;
}

/** How every gate of Kubernetes is written. */
const LOOKS_LIKE_A_GATE = /^[A-Z][A-Za-z0-9]{0,99}$/;

/** One sentence for each setting whose name cannot be a gate's, or that switches one that is locked. */
export function gateProblems(settings: FeatureGateSettings): string[] {
  const problems: string[] = [];
  for (const [name, enabled] of Object.entries(settings)) {
    const gate = Object.hasOwn(GATES, name) ? GATES[name] : undefined;
    if (gate === undefined) {
      if (LOOKS_LIKE_A_GATE.test(name)) continue;
      const meant = nearest(name, KNOWN_GATES);
      const hint = meant === undefined ? 'want letters and digits, the first a capital' : `did you mean ${meant}?`;
      problems.push(`${JSON.stringify(name)} is no name of a feature gate: ${hint}`);
    } else if (gate.locked && gate.enabled !== enabled) {
      problems.push(`feature gate ${name} is locked to ${gate.enabled}: drop it`);
    }
  }
  return problems;
}

/**
 * One sentence about all settings of gates that are none of ours; empty without any. A cluster sets its gates for every component in one
 * place, and kube-proxy knows (and ignores) those of the others: a start must not fail for them.
 */
export function gateNotes(settings: FeatureGateSettings): string[] {
  const foreign = Object.keys(settings).filter((name) => !Object.hasOwn(GATES, name));
  if (foreign.length === 0) return [];
  const named = foreign.map((name) => {
    const meant = nearest(name, KNOWN_GATES);
    // Only what is a slip of the keyboard: names of gates have words in common.
    const slip = meant !== undefined && meant.toLowerCase() === name.toLowerCase();
    return slip ? `${name} (did you mean ${meant}?)` : name;
  });
  return [`feature gates that are not of this program have no effect: ${named.join(', ')}`];
}

/** Whether a gate of `gates`, which are all there are, is on. */
export function gateEnabled(gates: readonly FeatureGate[], name: string): boolean {
  return gates.some((gate) => gate.name === name && gate.enabled);
}

/** Every known gate; AllAlpha and AllBeta move those of their stage that are not set by name. */
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
