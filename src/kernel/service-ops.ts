import { constants } from 'node:os';
import type { Op } from '../state/op.ts';
import type { OpFailure } from '../state/outcome.ts';
import { type Endpoint, FORWARDING, forwardingOf, hasSameIdentity, type RealServer } from '../state/real-server.ts';
import { VS_PERSISTENT, type VirtualServer, type VirtualServerId } from '../state/virtual-server.ts';
import { isIp4 } from '../base/ip.ts';

/** A virtual server as modes that translate addresses have it: its endpoints are chosen at random. */
export interface ServiceState {
  /** Of session affinity, in seconds; 0: none. */
  readonly affinity: number;
  /** By their index. */
  readonly endpoints: readonly Endpoint[];
}

/** Operations on a virtual server or on its real servers. */
export type ServiceOp = Extract<Op, { readonly virtualServer: VirtualServer } | { readonly id: VirtualServerId }>;

/** How endpoints are chosen in these modes: each with the same probability. */
export const RANDOM = 'random';

export interface AppliedOps {
  /** Undefined: no such virtual server. */
  readonly after: ServiceState | undefined;
  readonly failures: readonly OpFailure[];
}

/** Applies operations to a virtual server. A failed operation does not stop the others. */
export function applyServiceOps(before: ServiceState | undefined, ops: readonly ServiceOp[]): AppliedOps {
  const failures: OpFailure[] = [];
  let after = before;
  for (const op of ops) {
    const result = applyOp(after, op);
    if (typeof result === 'string') failures.push(failureOf(op, result));
    else after = result.state;
  }
  return { after, failures };
}

type ErrorName = 'ESRCH' | 'ENOENT' | 'EOPNOTSUPP';

const TEXTS: Readonly<Record<ErrorName, string>> = {
  ESRCH: 'the virtual server does not exist',
  ENOENT: 'it does not exist',
  EOPNOTSUPP: 'this mode forwards with NAT, to random endpoints, and remembers single clients only',
};

function failureOf(op: Op, code: ErrorName): OpFailure {
  return { op, errno: constants.errno[code], code, text: TEXTS[code] };
}

interface Changed {
  readonly state: ServiceState | undefined;
}

function applyOp(state: ServiceState | undefined, op: ServiceOp): Changed | ErrorName {
  switch (op.kind) {
    case 'add-virtual-server':
      return withSettings(state ?? { affinity: 0, endpoints: [] }, op.virtualServer);
    case 'edit-virtual-server':
      return state === undefined ? 'ESRCH' : withSettings(state, op.virtualServer);
    case 'delete-virtual-server':
      return { state: undefined };
    case 'add-real-server':
      return state === undefined ? 'ESRCH' : withServer(state, op.realServer);
    case 'edit-real-server':
      if (state === undefined) return 'ESRCH';
      return indexOf(state, op.realServer) < 0 ? 'ENOENT' : withServer(state, op.realServer);
    case 'delete-real-server':
      return { state: state === undefined ? undefined : without(state, op.realServer) };
  }
}

function withSettings(state: ServiceState, server: VirtualServer): Changed | ErrorName {
  const { scheduler, flags, timeout, prefix, address } = server;
  const possible = scheduler === RANDOM && (flags & ~VS_PERSISTENT) === 0 && prefix === (isIp4(address) ? 32 : 128);
  return possible ? { state: { ...state, affinity: timeout } } : 'EOPNOTSUPP';
}

/** A real server without weight gets no connections, so it is not among the endpoints. */
function withServer(state: ServiceState, server: RealServer): Changed | ErrorName {
  if (forwardingOf(server) !== FORWARDING.nat) return 'EOPNOTSUPP';
  if (server.weight === 0) return { state: without(state, server) };
  if (indexOf(state, server) >= 0) return { state };
  const { address, port } = server;
  return { state: { ...state, endpoints: [...state.endpoints, { address, port }] } };
}

/** The last endpoint takes the index of the removed one, so that the others keep theirs. */
function without(state: ServiceState, server: Endpoint): ServiceState {
  const at = indexOf(state, server);
  const last = state.endpoints.at(-1);
  if (at < 0 || last === undefined) return state;
  const endpoints = state.endpoints.slice(0, -1);
  if (at < endpoints.length) endpoints[at] = last;
  return { ...state, endpoints };
}

function indexOf({ endpoints }: ServiceState, server: Endpoint): number {
  return endpoints.findIndex((endpoint) => hasSameIdentity(endpoint, server));
}
