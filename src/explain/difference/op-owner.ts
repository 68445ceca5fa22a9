import type { IpAddress } from '../../base/ip.ts';
import type { NamespacedName } from '../../base/service/names.ts';
import type { NodePlan } from '../../plan/node/node-plan.ts';
import { type Op, virtualServerOf } from '../../state/op.ts';
import { type VirtualServerId, virtualServerKey } from '../../state/virtual-server.ts';

/** Finds the Service that needs what an operation changes; undefined if none does, or the node itself. */
export type OwnerOf = (op: Op) => NamespacedName | undefined;

/** The operations that one Service needs, or the node. */
export interface OwnedOps {
  readonly service: NamespacedName | undefined;
  readonly ops: readonly Op[];
}

/** Divides operations by owner, those of the node first. */
export function opsByOwner(ops: Iterable<Op>, ownerOf: OwnerOf): readonly OwnedOps[] {
  const groups = Map.groupBy(ops, ownerOf);
  const ofNode = groups.get(undefined);
  groups.delete(undefined);
  return Array.from(
    [...(ofNode === undefined ? [] : [[undefined, ofNode] as const]), ...groups],
    ([service, some]) => ({
      service,
      ops: some,
    }),
  );
}

/** Returns a lookup in this plan. The lookup of addresses is built when it is first needed. */
export function ownersIn(plan: Pick<NodePlan, 'ownerOf' | 'services'>): OwnerOf {
  let byAddress: Map<IpAddress, NamespacedName> | undefined;
  return (op) => {
    const id = servedBy(op);
    if (id !== undefined) return plan.ownerOf(virtualServerKey(id));
    const address = 'entry' in op && op.entry.type === 'hash:ip' ? op.entry.address : 'address' in op && op.address;
    if (address === false) return undefined;
    byAddress ??= addressOwners(plan);
    return byAddress.get(address);
  };
}

/** Several Services may need one address: the first one is named. */
function addressOwners(plan: Pick<NodePlan, 'services'>): Map<IpAddress, NamespacedName> {
  const owners = new Map<IpAddress, NamespacedName>();
  for (const { service, virtualServers } of plan.services()) {
    for (const { virtualServer } of virtualServers) {
      if (!owners.has(virtualServer.address)) owners.set(virtualServer.address, service);
    }
  }
  return owners;
}

function servedBy(op: Op): VirtualServerId | undefined {
  if (!('entry' in op)) return virtualServerOf(op);
  return op.entry.type === 'hash:ip,port' || op.entry.type === 'hash:ip,port,net' ? op.entry : undefined;
}
