import type { IpFamily } from '../../base/ip.ts';
import type { NodePlan } from '../../plan/node/node-plan.ts';
import type { PlanConfig } from '../../plan/plan-config.ts';
import type { PlannedVirtualServer } from '../../plan/service-plan.ts';
import type { OtherStage } from './other-rule-walk.ts';
import type { Packet } from './packet.ts';
import type { PacketStep } from '../replies.ts';
import type { HookWalk } from './rule-walk.ts';

/** How a mode handles a packet according to the plan. */
export interface PacketPlane {
  readonly takes: (packet: Packet) => boolean;
  /** What happens to the packet until a virtual server takes it, or until it leaves the node or reaches a program. */
  readonly before: (packet: Packet) => HookWalk;
  /** What happens to a packet whose destination is the chosen endpoint by now. */
  readonly after: (packet: Packet) => Pick<HookWalk, 'matched' | 'decision'>;
  /** Where a virtual server takes the packet. */
  readonly taking: (packet: Packet) => Omit<PacketStep, 'rule' | 'packets'>;
  readonly others: (packet: Packet) => OtherStages;
  /** Whether endpoints see the address of a program of this node that forwards connections. */
  readonly forwards?: true;
}

/** The chains in which rules of other programs see the packet. */
export interface OtherStages {
  /** Before our rules have marked it. */
  readonly early: readonly OtherStage[];
  /** After that, until a virtual server takes it. */
  readonly late: readonly OtherStage[];
  /** On the way to an endpoint. */
  readonly toEndpoint: (isOnNode: boolean) => readonly OtherStage[];
  /** Our chains of iptables, each as "table chain". */
  readonly ours: ReadonlySet<string>;
}

/** The facts from which a PacketPlane is made. */
export interface PlaneFacts {
  readonly family: IpFamily;
  readonly config: PlanConfig;
  readonly plan: Pick<NodePlan, 'entries'>;
  readonly planned: PlannedVirtualServer | undefined;
  /** Whether the destination is an address whose ports without a Service reject connections. */
  readonly isClosed: boolean;
}

/** The hooks of a packet that no address translation changes. */
export function stagesUntranslated({ sourceLocal, destinationLocal }: Packet): Pick<OtherStages, 'early' | 'late'> {
  if (sourceLocal) return { early: inTables(['raw', 'mangle'], 'OUTPUT'), late: inTables(['nat'], 'OUTPUT') };
  const hook = destinationLocal ? 'INPUT' : 'FORWARD';
  return { ...stagesReceived(), late: [['nat', 'PREROUTING'], ...inTables(['mangle', 'filter', 'security'], hook)] };
}

/** The hooks of a packet that is received and translated. */
export function stagesReceived(): Pick<OtherStages, 'early' | 'late'> {
  return { early: inTables(['raw', 'mangle'], 'PREROUTING'), late: inTables(['nat'], 'PREROUTING') };
}

export function inTables(tables: readonly string[], hook: string): readonly OtherStage[] {
  return tables.map((table) => [table, hook]);
}
