import type { ProxyMode } from '../../src/base/proxy-mode.ts';
import type { Kernel, NodeAddress } from '../../src/kernel/kernel.ts';
import { MODE_PLANS } from '../../src/plan/mode-plans.ts';
import type { Plane } from '../fake-kernel/planes.ts';
import { PLAN_CONFIG, Reconciling } from './reconciling.ts';
import { address } from './state.ts';

/** The addresses of a node in memory. */
export const NODE: readonly NodeAddress[] = ['192.168.9.1', '192.168.9.2', 'fd00:9::1'].map((text) => ({
  address: address(text),
  prefix: 24,
  interfaceName: 'eth0',
  tentative: false,
}));

/** Reconciles as the daemon does in a mode: in other modes than ipvs, Services cannot ask for settings of their own. */
export function reconcilingIn(mode: ProxyMode, kernel: Kernel): Reconciling {
  const options = { plan: { ...PLAN_CONFIG, ...MODE_PLANS[mode] } };
  return mode === 'ipvs' ? new Reconciling(kernel, options) : new Reconciling(kernel, options, []);
}

/** Reconciles on a mode in memory whose kernel is prepared. */
export async function startOn(
  plane: Plane,
  nodeAddresses: readonly NodeAddress[] = NODE,
): Promise<{ readonly kernel: Kernel; readonly run: Reconciling }> {
  plane.node.setNodeAddresses(nodeAddresses);
  await plane.kernel.prepare();
  return { kernel: plane.kernel, run: reconcilingIn(plane.kernel.mode, plane.kernel) };
}
