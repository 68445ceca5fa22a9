import { constants } from 'node:os';
import type { ServerOp } from '../state/op.ts';
import { type OpFailure, failureOf } from '../state/outcome.ts';
import {
  type Endpoint,
  FORWARDING,
  type RealServer,
  type RealServerKey,
  forwardingOf,
  realServerKey,
} from '../state/real-server.ts';
import { VS_PERSISTENT, type VirtualServer, type VirtualServerId, borrows } from '../state/virtual-server.ts';
import { isIp4 } from '../base/ip.ts';

/** A virtual server as modes that translate addresses have it: its endpoints are chosen at random. */
export interface ServiceState {
  /** Seconds of session affinity; 0: none. Without endpoints, connections are rejected, and it is 0. */
  readonly affinity: number;
  /** Ordered by index (see removeEndpoint). */
  readonly endpoints: readonly Endpoint[];
  /** See VirtualServer. */
  readonly list?: VirtualServerId | undefined;
}

/** How endpoints are chosen in these modes: each with the same probability. */
export const RANDOM = 'random';

export interface AppliedOps {
  /** Undefined: no such virtual server. */
  readonly after: ServiceState | undefined;
  /**
   * The settings that the last operation on the virtual server itself wanted; undefined if there is none, or it was
   * deleted.
   */
  readonly settings: VirtualServer | undefined;
  readonly failures: readonly OpFailure[];
}

/** Applies operations to a virtual server. A failed operation does not stop the others. */
export function applyServiceOps(before: ServiceState | undefined, ops: Iterable<ServerOp>): AppliedOps {
  const failures: OpFailure[] = [];
  const draft = new ServiceDraft(before);
  for (const op of ops) {
    const error = applyOp(draft, op);
    if (error !== undefined)
      failures.push(failureOf(op, { errno: constants.errno[error], code: error, text: TEXTS[error] }));
  }
  return { after: draft.state(), settings: draft.settings, failures };
}

type ErrorName = 'ESRCH' | 'ENOENT' | 'EOPNOTSUPP';

const TEXTS: Readonly<Record<ErrorName, string>> = {
  ESRCH: 'the virtual server does not exist',
  ENOENT: 'it does not exist',
  EOPNOTSUPP: 'this mode forwards with NAT, to random endpoints, and remembers single clients only',
};

/** Applies one operation. Returns why it is not possible; undefined if it is. */
function applyOp(draft: ServiceDraft, op: ServerOp): ErrorName | undefined {
  switch (op.kind) {
    case 'add-virtual-server':
      return setSettings(draft, op.virtualServer);
    case 'edit-virtual-server':
      return draft.exists ? setSettings(draft, op.virtualServer) : 'ESRCH';
    case 'delete-virtual-server':
      draft.remove();
      return undefined;
    case 'add-real-server':
      return draft.exists ? setServer(draft, op.realServer) : 'ESRCH';
    case 'edit-real-server':
      if (!draft.exists) return 'ESRCH';
      return draft.has(op.realServer) ? setServer(draft, op.realServer) : 'ENOENT';
    case 'delete-real-server':
      draft.removeEndpoint(op.realServer);
      return undefined;
  }
}

function setSettings(draft: ServiceDraft, server: VirtualServer): ErrorName | undefined {
  const { scheduler, flags, prefix, address } = server;
  const possible = scheduler === RANDOM && (flags & ~VS_PERSISTENT) === 0 && prefix === (isIp4(address) ? 32 : 128);
  if (!possible) return 'EOPNOTSUPP';
  draft.set(server);
  return undefined;
}

/** A real server without weight gets no connections, so it is not among the endpoints. */
function setServer(draft: ServiceDraft, server: RealServer): ErrorName | undefined {
  if (forwardingOf(server) !== FORWARDING.nat) return 'EOPNOTSUPP';
  if (server.weight === 0) draft.removeEndpoint(server);
  else draft.addEndpoint(server);
  return undefined;
}

/** A virtual server that operations change. A service may have thousands of endpoints, so none of them copies the list. */
class ServiceDraft {
  /** Undefined: it does not exist. */
  #head: Omit<ServiceState, 'endpoints'> | undefined;
  #settings: VirtualServer | undefined;
  readonly #endpoints: Endpoint[];
  readonly #indexes: Map<RealServerKey, number>;

  constructor(before: ServiceState | undefined) {
    this.#head = before;
    this.#endpoints = [...(before?.endpoints ?? [])];
    this.#indexes = new Map(this.#endpoints.map((endpoint, index) => [realServerKey(endpoint), index]));
  }

  get exists(): boolean {
    return this.#head !== undefined;
  }

  get settings(): VirtualServer | undefined {
    return this.#settings;
  }

  /** Sets the settings. Creates the virtual server if it does not exist. With the list of another one, it has no endpoints of its own. */
  set(settings: VirtualServer): void {
    this.#settings = settings;
    this.#head = { affinity: settings.timeout, list: settings.list };
    if (borrows(settings, settings)) this.#clear();
  }

  remove(): void {
    this.#settings = undefined;
    this.#head = undefined;
    this.#clear();
  }

  has(endpoint: Endpoint): boolean {
    return this.#indexes.has(realServerKey(endpoint));
  }

  addEndpoint({ address, port }: Endpoint): void {
    const endpoint = { address, port };
    const key = realServerKey(endpoint);
    if (this.#indexes.has(key)) return;
    this.#indexes.set(key, this.#endpoints.length);
    this.#endpoints.push(endpoint);
  }

  /** The last endpoint takes the index of the removed one, so that the others keep theirs. */
  removeEndpoint(endpoint: Endpoint): void {
    const key = realServerKey(endpoint);
    const at = this.#indexes.get(key);
    const last = this.#endpoints.at(-1);
    if (at === undefined || last === undefined) return;
    this.#endpoints[at] = last;
    this.#indexes.set(realServerKey(last), at);
    this.#endpoints.pop();
    this.#indexes.delete(key);
  }

  state(): ServiceState | undefined {
    if (this.#head === undefined) return undefined;
    const { affinity, list } = this.#head;
    const endpoints = this.#endpoints;
    if (list !== undefined) return { affinity, endpoints, list };
    return { affinity: endpoints.length === 0 ? 0 : affinity, endpoints };
  }

  #clear(): void {
    this.#endpoints.length = 0;
    this.#indexes.clear();
  }
}
