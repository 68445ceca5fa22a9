import type { Flow } from '../kernel/kernel.ts';
import type { PlannedUdp } from '../plan/service-plan.ts';
import { type RealServerKey, realServerKey } from '../state/real-server.ts';
import { type VirtualServerKey, virtualServerKey } from '../state/virtual-server.ts';

/**
 * UDP flows to our virtual servers whose answer comes from nobody who may still answer: of a pod that is gone, or of nobody at
 * all (a flow that began while the service had no endpoint is tracked un-translated, and would stay a black hole). A virtual
 * server without any answering endpoint keeps its flows: there is nothing better to send them to. The rule is that of
 * kube-proxy's newest conntrack reconciler; address and port are compared exactly, so flows to other ports are untouched.
 */
export function staleFlows(flows: Iterable<Flow>, planned: Iterable<PlannedUdp>): Flow[] {
  const answering = new Map<VirtualServerKey, Set<RealServerKey>>();
  for (const { id, answering: servers } of planned) {
    if (servers.length > 0) answering.set(virtualServerKey(id), new Set(servers.map(realServerKey)));
  }
  const stale: Flow[] = [];
  for (const flow of flows) {
    const id = { address: flow.destination, port: flow.destinationPort, protocol: flow.protocol };
    const servers = answering.get(virtualServerKey(id));
    if (servers === undefined) continue;
    if (!servers.has(realServerKey({ address: flow.replySource, port: flow.replySourcePort }))) stale.push(flow);
  }
  return stale;
}
