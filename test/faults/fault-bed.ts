import type { Kernel } from '../../src/kernel/kernel.ts';
import type { IpAddress } from '../../src/base/ip.ts';
import type { PlanConfig } from '../../src/plan/plan-config.ts';
import type { IpSetEntry } from '../../src/state/ip-set.ts';
import type { Deed } from './acts.ts';

/** A kernel for random faults: one in memory, or a real one. */
export interface FaultBed {
  readonly kernel: Kernel;
  /** Addresses of this node's interfaces, without those of kube-ipvs0. */
  readonly nodeAddresses: readonly IpAddress[];
  /** Makes changes as another program. */
  act(deeds: readonly Deed[]): Promise<void>;
  /** Returns the required lines that do not depend on Services: rules, foreign objects. */
  standing(config: PlanConfig, history: number): Promise<readonly string[]>;
  /** Returns the current state in the format of state-lines.ts; `history` may select the tool that reads it. */
  found(history?: number): Promise<readonly string[]>;
  /** Returns whether the set contains the entry. Absent if the kernel cannot be read synchronously. */
  hasEntry?(name: string, entry: IpSetEntry): boolean;
}
