import { realServerKey } from '../state/real-server.ts';
import type { ClientAffinity } from './client-affinity.ts';
import { EndpointChoice } from './endpoint-choice.ts';
import { type EngineCounters, type PortTraffic, noCounts } from './engine-report.ts';
import type { Backend, ForwardedPort } from './engine-update.ts';

/** A TCP connection or a UDP client. */
export interface Session {
  /** Called when its endpoint is no longer one of the Service port. */
  endpointLeft(): void;
  /** Ends it at once. */
  reset(): void;
  /** Bytes so far. */
  readonly bytes: Readonly<Record<'in' | 'out', number>>;
}

/** Counted when its sessions end. */
type Counted = Pick<EngineCounters, 'connections' | 'bytesIn' | 'bytesOut'>;

/** An endpoint, as the engine uses it. It remains the same object while the Service port has the endpoint. */
export interface UsedEndpoint {
  backend: Backend;
  readonly sessions: Set<Session>;
  readonly counters: Counted;
  readonly weight: number;
  readonly active: number;
  /** Until when other endpoints are preferred, by performance.now(). */
  avoidedUntil: number;
  /** Whether it has had as many connections as its upper threshold, and since then not fewer than its lower one. */
  isFull(): boolean;
}

function usedEndpoint(backend: Backend): UsedEndpoint {
  const sessions = new Set<Session>();
  let isFull = false;
  return {
    backend,
    counters: { connections: 0, bytesIn: 0, bytesOut: 0 },
    isFull() {
      const { upperThreshold = 0, lowerThreshold = 0 } = this.backend;
      const least = lowerThreshold > 0 ? lowerThreshold : (upperThreshold * 3) / 4;
      isFull = upperThreshold > 0 && (sessions.size >= upperThreshold || (isFull && sessions.size >= least));
      return isFull;
    },
    sessions,
    avoidedUntil: 0,
    get weight() {
      return this.backend.weight;
    },
    get active() {
      return sessions.size;
    },
  };
}

/** What the ports of an engine share. */
export interface EndpointRules {
  readonly affinity: ClientAffinity<UsedEndpoint>;
  /** Whether connections to an endpoint would come back to the engine. */
  isLoop(port: ForwardedPort, endpoint: Backend): boolean;
}

/** The endpoints of a forwarded port, with their connections. */
export class ServiceEndpoints {
  readonly counters: EngineCounters = noCounts();
  /** All connections and UDP clients, also those of endpoints that have left. */
  readonly sessions = new Set<Session>();
  readonly #choice = new EndpointChoice<UsedEndpoint>(Math.floor(Math.random() * 65_536));
  readonly #engine: EndpointRules;
  #onIdle: () => void = () => undefined;
  #port: ForwardedPort;
  #endpoints = new Map<number | bigint, UsedEndpoint>();
  #list: readonly UsedEndpoint[] = [];

  constructor(port: ForwardedPort, engine: EndpointRules) {
    this.#port = port;
    this.#engine = engine;
    this.update(port);
  }

  get port(): ForwardedPort {
    return this.#port;
  }

  /** Replaces the endpoints. Connections to those that remain are not touched. */
  update(port: ForwardedPort): void {
    this.#port = port;
    const before = this.#endpoints;
    this.#endpoints = new Map();
    for (const backend of port.endpoints) {
      const key = realServerKey(backend);
      const endpoint = before.get(key) ?? usedEndpoint(backend);
      endpoint.backend = backend;
      this.#endpoints.set(key, endpoint);
    }
    this.#list = [...this.#endpoints.values()];
    for (const [key, endpoint] of before) if (!this.#endpoints.has(key)) this.#left(endpoint);
  }

  /** Chooses the endpoint of a new connection of a client; undefined if none is left of those that `isAllowed`. */
  choose(client: string, isAllowed: (endpoint: UsedEndpoint) => boolean): UsedEndpoint | undefined {
    const { key, choice, affinitySeconds } = this.#port;
    const { affinity } = this.#engine;
    const isPossible = (endpoint: UsedEndpoint): boolean =>
      isAllowed(endpoint) && !endpoint.isFull() && !this.#engine.isLoop(this.#port, endpoint.backend);
    if (affinitySeconds > 0) {
      const affine = affinity.find(key, client, performance.now(), affinitySeconds * 1_000);
      if (affine !== undefined && this.has(affine) && affine.weight > 0 && isPossible(affine)) return affine;
    }
    return this.#choice.choose(choice, this.#list, isPossible);
  }

  /** Counts with the bytes of the sessions that exist. */
  get counts(): EngineCounters {
    return withSessions(this.counters, this.sessions);
  }

  get traffic(): PortTraffic {
    const endpoints = this.#list.map(({ backend: { address, port }, counters, sessions }) => {
      return { address, port, ...withSessions(counters, sessions), active: sessions.size };
    });
    return { counters: this.counts, endpoints };
  }

  begin(session: Session): void {
    this.sessions.add(session);
    this.counters.connections += 1;
    this.counters.active += 1;
  }

  /** @param endpoint the one that it used last */
  end(session: Session, endpoint: UsedEndpoint | undefined): void {
    if (!this.sessions.delete(session)) return;
    this.counters.active -= 1;
    addBytes(this.counters, session);
    if (endpoint?.sessions.delete(session) === true) addBytes(endpoint.counters, session);
    if (this.sessions.size === 0) this.#onIdle();
  }

  /** Calls back when no session is left: at once, or when the last one ends. */
  whenIdle(callback: () => void): void {
    this.#onIdle = callback;
    if (this.sessions.size === 0) callback();
  }

  /** A session uses an endpoint. */
  connected(client: string, endpoint: UsedEndpoint, session: Session): void {
    endpoint.sessions.add(session);
    endpoint.counters.connections += 1;
    const { key, affinitySeconds } = this.#port;
    if (affinitySeconds > 0 && this.has(endpoint))
      this.#engine.affinity.remember(key, client, endpoint, performance.now());
  }

  /** An endpoint of a client failed: its next connection chooses again. */
  failed(client: string): void {
    this.#engine.affinity.forget(this.#port.key, client);
  }

  has(endpoint: UsedEndpoint): boolean {
    return this.#endpoints.get(realServerKey(endpoint.backend)) === endpoint;
  }

  #left(endpoint: UsedEndpoint): void {
    this.#choice.forget(endpoint);
    for (const session of endpoint.sessions) session.endpointLeft();
  }
}

function addBytes(counters: Counted, { bytes }: Session): void {
  counters.bytesIn += bytes.in;
  counters.bytesOut += bytes.out;
}

/** Returns counters with the bytes of sessions that have not ended. */
function withSessions<C extends Counted>(counters: C, sessions: Iterable<Session>): C {
  const counts = { ...counters };
  for (const session of sessions) addBytes(counts, session);
  return counts;
}
