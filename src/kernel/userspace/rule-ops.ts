import type { ServerOp } from '../../state/op.ts';
import { type Endpoint, hasSameIdentity } from '../../state/real-server.ts';
import { type VirtualServer, type VirtualServerId, hasSameSettings } from '../../state/virtual-server.ts';
import { virtualServerOf } from '../linux/translating-kernel.ts';
import type { ForwardedServer } from './forwarded-server.ts';

/** A virtual server as the table has it. */
export interface FoundRules {
  readonly virtualServer: VirtualServer;
  readonly endpoints: readonly Endpoint[];
}

/**
 * Returns a virtual server as the table shall have it: the engine chooses the endpoint, and knows session affinity.
 *
 * @param affinity in seconds, where the table leads to endpoints
 */
export function ruleServer(server: VirtualServer, affinity = 0): VirtualServer {
  const { traits } = server;
  return { ...virtualServerOf(server, affinity), ...(traits === undefined ? {} : { traits }) };
}

/** Whether the table leads a virtual server to the engine. @param target undefined: it has no endpoint */
export function leadsTo(endpoints: readonly Endpoint[], target: Endpoint | undefined): boolean {
  const [first] = endpoints;
  if (target === undefined) return first === undefined;
  return endpoints.length === 1 && first !== undefined && hasSameIdentity(first, target);
}

/**
 * Returns the operations by which the table leads a virtual server to the engine.
 *
 * @param wanted undefined: it is to be deleted
 */
export function ruleOps(
  id: VirtualServerId,
  wanted: { readonly virtualServer: VirtualServer; readonly target: Endpoint | undefined } | undefined,
  found: FoundRules | undefined,
): readonly ServerOp[] {
  if (wanted === undefined) return found === undefined ? [] : [{ kind: 'delete-virtual-server', id }];
  const virtualServer = ruleServer(wanted.virtualServer);
  const { target } = wanted;
  const ops: ServerOp[] = [];
  if (found === undefined) ops.push({ kind: 'add-virtual-server', virtualServer });
  else if (!hasSameSettings(found.virtualServer, virtualServer))
    ops.push({ kind: 'edit-virtual-server', virtualServer });
  const endpoints = found?.endpoints ?? [];
  const isTarget = (endpoint: Endpoint): boolean => target !== undefined && hasSameIdentity(endpoint, target);
  if (target !== undefined && !endpoints.some(isTarget))
    ops.push({ kind: 'add-real-server', id, realServer: { ...target, weight: 1 } });
  for (const endpoint of endpoints) {
    if (!isTarget(endpoint)) ops.push({ kind: 'delete-real-server', id, realServer: { ...endpoint, weight: 0 } });
  }
  return ops;
}

/** Returns the operations by which the table leads a virtual server to its endpoints, instead of to the engine. */
export function handOverOps({ virtualServer, realServers }: ForwardedServer, target: Endpoint): readonly ServerOp[] {
  const { address, port, protocol, timeout } = virtualServer;
  const id = { address, port, protocol };
  const served = [...realServers.values()].filter(({ weight }) => weight > 0);
  return [
    { kind: 'edit-virtual-server', virtualServer: ruleServer(virtualServer, timeout) },
    ...served.map((realServer): ServerOp => ({ kind: 'add-real-server', id, realServer })),
    { kind: 'delete-real-server', id, realServer: { ...target, weight: 0 } },
  ];
}
