import type { EngineLimits } from './engine-limits.ts';
import type { EngineReport, EngineTraffic, RefusedListener } from './engine-report.ts';
import type { EngineUpdate } from './engine-update.ts';

/** The data with which the worker starts. */
export interface EngineStart {
  readonly limits: EngineLimits;
}

/** What the daemon asks its engine. The answer has the same number. */
export type EngineQuestion =
  | { readonly kind: 'apply'; readonly number: number; readonly update: EngineUpdate }
  | { readonly kind: 'report'; readonly number: number }
  /** Without keys: of all ports. */
  | { readonly kind: 'traffic'; readonly number: number; readonly keys?: readonly string[] | undefined };

export type EngineMessage =
  | { readonly kind: 'applied'; readonly number: number }
  | { readonly kind: 'report'; readonly number: number; readonly report: EngineReport }
  | { readonly kind: 'traffic'; readonly number: number; readonly traffic: EngineTraffic }
  | { readonly kind: 'refused'; readonly refused: RefusedListener };
