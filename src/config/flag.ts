import type { FieldPath } from './config-fields.ts';
import { type ValueKind, bool } from './value-kind.ts';

/** What --help and the documentation list together, in this order. */
export const FLAG_GROUPS = [
  'Configuration',
  'API server',
  'This node',
  'IPVS',
  'Which traffic is local, and masquerading',
  'Connection tracking',
  'Health, metrics and profiling',
  'Logging',
  'One task, then exit',
  "kube-ipvs-proxy's own",
  'Accepted from kube-proxy and ignored',
] as const;

export type FlagGroup = (typeof FLAG_GROUPS)[number];

/** One command line flag. Flags with a `field` have its kind of value. */
export interface Flag {
  readonly name: string;
  readonly short?: string;
  readonly group: FlagGroup;
  readonly help: string;
  /** As the help shows it; also what the flag's own reader makes of it is the value without the flag. */
  readonly default: string;
  /** Path in KubeProxyConfiguration v1alpha1. */
  readonly field?: FieldPath;
  /** For flags without a field. */
  readonly kind?: ValueKind<unknown>;
  /** The word behind the flag in --help, where the kind's own says too little. */
  readonly hint?: string;
  /** What the flag means without a value ("--cleanup" is "--cleanup=true"). */
  readonly bare?: string;
  readonly deprecated?: string;
  /** Read and checked, without effect: why. */
  readonly ignored?: string;
}

export type Details = Partial<Omit<Flag, 'name' | 'group' | 'default' | 'help'>>;
export type Row = readonly [name: string, fallback: string, help: string, details: Details];

export const SWITCH: Details = { kind: bool, bare: 'true' };

export function of(field: FieldPath, details: Details = {}): Details {
  return { field, ...details };
}

export function switchOf(field: FieldPath): Details {
  return { field, bare: 'true' };
}
