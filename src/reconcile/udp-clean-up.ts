import type { Flow } from '../kernel/kernel.ts';
import type { PlannedUdp } from '../plan/service-plan.ts';
import { type RealServerKey, realServerKey } from '../state/real-server.ts';
import { type VirtualServerKey, virtualServerKey } from '../state/virtual-server.ts';

/** Flows that are looked at between two pauses. */
const STRIDE = 256;

/**
 * UDP flows to our virtual servers whose answer comes from nobody who may still answer: of a pod that is gone, or of nobody at
 * all (a flow that began while the service had no endpoint is tracked un-translated, and would stay a black hole). A virtual
 * server without any answering endpoint keeps its flows: there is nothing better to send them to. The rule is that of
 * kube-proxy's newest conntrack reconciler; address and port are compared exactly, so flows to other ports are untouched.
 * The cost is that of the flows, however many services there are. In steps: there may be a hundred thousand.
 */
export function* staleFlows(
  flows: Iterable<Flow>,
  answeringAt: (key: VirtualServerKey) => PlannedUdp['answering'],
): Generator<void, Flow[]> {
  const known = new Map<VirtualServerKey, ReadonlySet<RealServerKey>>();
  const stale: Flow[] = [];
  let count = 0;
  for (const flow of flows) {
    if (++count % STRIDE === 0) yield;
    const key = virtualServerKey({
      address: flow.destination,
      port: flow.destinationPort,
      protocol: flow.protocol,
    });
    let answering = known.get(key);
    if (answering === undefined) known.set(key, (answering = new Set(answeringAt(key).map(realServerKey))));
    const answers = realServerKey({ address: flow.replySource, port: flow.replySourcePort });
    if (answering.size > 0 && !answering.has(answers)) stale.push(flow);
  }
  return stale;
}
