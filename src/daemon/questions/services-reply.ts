import { MODES, type ProxyMode } from '../../base/proxy-mode.ts';
import { compareText } from '../../base/text/compare-text.ts';
import { counted } from '../../base/text/counted.ts';
import { Yielder } from '../../base/yielder.ts';
import { ownersIn } from '../../explain/difference/op-owner.ts';
import { refusedReply } from '../../explain/refused-reply.ts';
import { REPLY_API_VERSION } from '../../explain/replies.ts';
import type { ServiceRow, ServicesReply } from '../../explain/node/node-replies.ts';
import { wordsOf } from '../../explain/words.ts';
import type { NodePlan } from '../../plan/node/node-plan.ts';
import type { ServicePlan } from '../../plan/service-plan.ts';
import type { Questioned } from '../../reconcile/questioned.ts';
import { realServerKey } from '../../state/real-server.ts';
import { virtualServerKey } from '../../state/virtual-server.ts';
import { type TrafficParts, trafficReply } from './traffic.ts';

export interface ServicesParts extends Omit<TrafficParts, 'by' | 'ownerOf'> {
  readonly mode: ProxyMode;
  readonly reconciler: Pick<Questioned, 'plan' | 'standing'>;
}

/** Bounds the reply. */
const MOST_ROWS = 5_000;

/** Lists the Services of this node, those with problems first. In modes without IPVS, connections are not counted. */
export async function servicesReply(parts: ServicesParts): Promise<ServicesReply> {
  const { node, mode, namespace, reconciler } = parts;
  const { plan } = reconciler;
  const refused = refusedByService(parts);
  const connections = await connectionsOf(parts);
  const yielder = new Yielder();
  const rows: ServiceRow[] = [];
  for (const planned of plan.services()) {
    const { service } = planned;
    if (namespace !== undefined && !service.startsWith(`${namespace}/`)) continue;
    const found = connections?.get(service);
    rows.push({
      service,
      endpoints: endpointsOf(planned),
      ...(connections === undefined
        ? {}
        : {
            activeConnections: found?.activeConnections ?? 0,
            inactiveConnections: found?.inactiveConnections ?? 0,
          }),
      problems: [...problemsOf(planned, plan, wordsOf(mode).served), ...(refused.get(service) ?? [])],
    });
    if (yielder.due) await yielder.yieldIfDue();
  }
  rows.sort(
    (a, b) => Number(a.problems.length === 0) - Number(b.problems.length === 0) || compareText(a.service, b.service),
  );
  const wrong = rows.filter(({ problems }) => problems.length > 0).length;
  return {
    apiVersion: REPLY_API_VERSION,
    kind: 'Services',
    node,
    ok: wrong === 0,
    verdict: `${counted(rows.length, 'Service')} on node ${node}, ${wrong === 0 ? 'none' : wrong} with problems`,
    rows: rows.slice(0, MOST_ROWS),
    more: Math.max(0, rows.length - MOST_ROWS),
  };
}

function endpointsOf({ virtualServers }: ServicePlan): number {
  const used = virtualServers.flatMap(({ realServers }) => realServers.filter(({ weight }) => weight > 0));
  return new Set(used.map(realServerKey)).size;
}

function problemsOf(planned: ServicePlan, plan: NodePlan, served: string): string[] {
  const { service, virtualServers, warnings } = planned;
  return [
    ...(virtualServers.length > 0 && endpointsOf(planned) === 0 ? [`no ${served} has an endpoint`] : []),
    ...plan.conflictsOf(service).map(({ claimed, owner }) => `${claimed} belongs to ${owner}`),
    ...warnings.map(({ message }) => message),
  ];
}

function refusedByService({ mode, reconciler }: ServicesParts): ReadonlyMap<string, readonly string[]> {
  const ownerOf = ownersIn(reconciler.plan);
  const texts = new Map<string, string[]>();
  for (const failing of reconciler.standing.failing) {
    const owner = ownerOf(failing.failure.op);
    if (owner === undefined) continue;
    const { command, why } = refusedReply(failing, wordsOf(mode));
    const own = texts.get(owner) ?? [];
    texts.set(owner, own);
    own.push(`refused: ${command}: ${why}`);
  }
  return texts;
}

async function connectionsOf(
  parts: ServicesParts,
): Promise<ReadonlyMap<string, Pick<ServiceRow, 'activeConnections' | 'inactiveConnections'>> | undefined> {
  const { mode, reconciler } = parts;
  if (!MODES[mode].hasIpvs) return undefined;
  const { plan } = reconciler;
  const { rows } = await trafficReply({ ...parts, by: 'service', ownerOf: (id) => plan.ownerOf(virtualServerKey(id)) });
  return new Map(rows.map((row) => [row.of, row]));
}
