import type { ServerOp } from '../state/op.ts';
import type { OpFailure } from '../state/outcome.ts';
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
import { type RefusedOp, type ServerDraft, applyOps } from './apply-ops.ts';

/** A virtual server as modes that translate addresses have it: its endpoints are chosen at random. */
export interface ServiceState {
  /** Seconds of session affinity; 0: none. Without endpoints, connections are rejected, and it is 0. */
  readonly affinity: number;
  /** Ordered by index (see ServiceDraft.drop). */
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
  const draft = new ServiceDraft(before);
  const failures = applyOps(draft, ops);
  return { after: draft.state(), settings: draft.settings, failures };
}

const UNSUPPORTED: RefusedOp = {
  code: 'EOPNOTSUPP',
  text: 'this mode forwards with NAT, to random endpoints, and remembers single clients only',
};

/** A virtual server that operations change. A service may have thousands of endpoints, so none of them copies the list. */
class ServiceDraft implements ServerDraft {
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

  /** With the list of another virtual server, it has no endpoints of its own. */
  set(settings: VirtualServer): RefusedOp | undefined {
    const { scheduler, flags, prefix, address } = settings;
    const possible = scheduler === RANDOM && (flags & ~VS_PERSISTENT) === 0 && prefix === (isIp4(address) ? 32 : 128);
    if (!possible) return UNSUPPORTED;
    this.#settings = settings;
    this.#head = { affinity: settings.timeout, list: settings.list };
    if (borrows(settings, settings)) this.#clear();
    return undefined;
  }

  remove(): void {
    this.#settings = undefined;
    this.#head = undefined;
    this.#clear();
  }

  has(endpoint: Endpoint): boolean {
    return this.#indexes.has(realServerKey(endpoint));
  }

  /** A real server without weight gets no connections, so it is not among the endpoints. */
  put(server: RealServer): RefusedOp | undefined {
    if (forwardingOf(server) !== FORWARDING.nat) return UNSUPPORTED;
    if (server.weight === 0) this.drop(server);
    else this.#add(server);
    return undefined;
  }

  #add({ address, port }: Endpoint): void {
    const endpoint = { address, port };
    const key = realServerKey(endpoint);
    if (this.#indexes.has(key)) return;
    this.#indexes.set(key, this.#endpoints.length);
    this.#endpoints.push(endpoint);
  }

  /** The last endpoint takes the index of the removed one, so that the others keep theirs. */
  drop(endpoint: Endpoint): void {
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
