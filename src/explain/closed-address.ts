import type { IpAddress } from '../base/ip.ts';
import type { NodePlan } from '../plan/node/node-plan.ts';

/** Whether the ports of an address that no Service has reject connections. Yields after each Service. */
export function* isClosedAddress(address: IpAddress, plan: Pick<NodePlan, 'services'>): Generator<void, boolean> {
  for (const { closed } of plan.services()) {
    if (closed.includes(address)) return true;
    yield;
  }
  return false;
}
