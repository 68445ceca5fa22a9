import { constants } from 'node:os';
import type { Op } from '../../state/op.ts';
import type { OpFailure } from '../../state/outcome.ts';
import { FORWARDING, forwardingOf, hasSameIdentity, type RealServer } from '../../state/real-server.ts';
import { VS_PERSISTENT, type VirtualServer, type VirtualServerId } from '../../state/virtual-server.ts';
import { isIp4 } from '../../base/ip.ts';
import type { EndpointAddress } from './keys.ts';
import type { ServiceState } from './service-objects.ts';

/** Operations on a virtual server or on its real servers. */
export type ServiceOp = Extract<Op, { readonly virtualServer: VirtualServer } | { readonly id: VirtualServerId }>;

/** How endpoints are chosen in this mode: each with the same probability. */
export const RANDOM = 'random';

export interface AppliedOps {
  /** Undefined: no such virtual server. */
  readonly after: ServiceState | undefined;
  readonly failures: readonly OpFailure[];
}

/** Applies operations to a virtual server. A failed operation does not stop the others. */
export function applyServiceOps(before: ServiceState | undefined, ops: readonly ServiceOp[]): AppliedOps {
  const failures: OpFailure[] = [];
  let after: Draft | undefined = before && { affinity: before.affinity, endpoints: [...before.endpoints] };
  for (const op of ops) {
    if (op.kind === 'delete-virtual-server') {
      after = undefined;
      continue;
    }
    const draft: Draft | undefined =
      after ?? (op.kind === 'add-virtual-server' ? { affinity: 0, endpoints: [] } : undefined);
    const error = draft === undefined ? errorWithout(op) : change(draft, op);
    if (error === undefined) after = draft;
    else failures.push(failureOf(op, error));
  }
  return { after, failures };
}

/** A virtual server while operations are applied. */
interface Draft {
  affinity: number;
  readonly endpoints: EndpointAddress[];
}

type ErrorName = 'ESRCH' | 'ENOENT' | 'EOPNOTSUPP';

const TEXTS: Readonly<Record<ErrorName, string>> = {
  ESRCH: 'the virtual server does not exist',
  ENOENT: 'it does not exist',
  EOPNOTSUPP: 'nftables mode forwards with NAT, to random endpoints, and remembers single clients only',
};

function failureOf(op: Op, code: ErrorName): OpFailure {
  return { op, errno: constants.errno[code], code, text: TEXTS[code] };
}

/** The result of an operation on a virtual server that does not exist. */
function errorWithout(op: ServiceOp): ErrorName | undefined {
  return op.kind === 'delete-real-server' ? undefined : 'ESRCH';
}

/** Changes the draft, or returns why that is not possible. */
function change(draft: Draft, op: Exclude<ServiceOp, { kind: 'delete-virtual-server' }>): ErrorName | undefined {
  switch (op.kind) {
    case 'add-virtual-server':
    case 'edit-virtual-server':
      return changeSettings(draft, op.virtualServer);
    case 'add-real-server':
      return put(draft, op.realServer);
    case 'edit-real-server':
      return indexOf(draft, op.realServer) < 0 ? 'ENOENT' : put(draft, op.realServer);
    case 'delete-real-server':
      remove(draft, op.realServer);
      return undefined;
  }
}

function changeSettings(draft: Draft, server: VirtualServer): ErrorName | undefined {
  const { scheduler, flags, timeout, prefix, address } = server;
  const possible = scheduler === RANDOM && (flags & ~VS_PERSISTENT) === 0 && prefix === (isIp4(address) ? 32 : 128);
  if (!possible) return 'EOPNOTSUPP';
  draft.affinity = timeout;
  return undefined;
}

/** A real server without weight gets no connections, so it is not among the endpoints. */
function put(draft: Draft, server: RealServer): ErrorName | undefined {
  if (forwardingOf(server) !== FORWARDING.nat) return 'EOPNOTSUPP';
  if (server.weight === 0) remove(draft, server);
  else if (indexOf(draft, server) < 0) draft.endpoints.push(server);
  return undefined;
}

/** The last endpoint takes the index of the removed one, so that the others keep theirs. */
function remove(draft: Draft, server: EndpointAddress): void {
  const at = indexOf(draft, server);
  if (at < 0) return;
  const last = draft.endpoints.pop();
  if (last !== undefined && at < draft.endpoints.length) draft.endpoints[at] = last;
}

function indexOf({ endpoints }: Draft, server: EndpointAddress): number {
  return endpoints.findIndex((endpoint) => hasSameIdentity(endpoint, server));
}
