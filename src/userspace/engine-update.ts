import type { Protocol } from '../base/protocol.ts';
import type { RealServer } from '../state/real-server.ts';
import type { VirtualServerId } from '../state/virtual-server.ts';

/** Where connections are forwarded to. With weight 0, it keeps its connections and gets no new ones. The thresholds are as in IPVS. */
export type Backend = Pick<RealServer, 'address' | 'port' | 'weight' | 'upperThreshold' | 'lowerThreshold'>;

/** How the endpoint of a new connection is chosen, as the schedulers of IPVS of these names do. */
export type EngineScheduler = 'rr' | 'wrr' | 'lc' | 'wlc';

/** A port of a Service that is forwarded. One Service port may have several, such as one for each family. */
export interface ForwardedPort {
  /** Unique, of the caller's choice. */
  readonly key: string;
  /** The Service whose connections count together for the limit. */
  readonly service: string;
  readonly protocol: Protocol;
  readonly endpoints: readonly Backend[];
  readonly choice: EngineScheduler;
  /** How long a client stays with its endpoint after its last connection; 0: no session affinity. */
  readonly affinitySeconds: number;
  /** How long connections to a removed endpoint may last, in ms, 0: until they end; absent: as EngineLimits say. */
  readonly drainMs?: number;
}

/** An address and port that the engine listens on. */
export interface Listener extends VirtualServerId {
  /** The forwarded port that it serves. Absent: it is looked up by the original destination of each connection. */
  readonly key?: string;
  /** Whether other processes of the same user may listen there too (SO_REUSEPORT). */
  readonly reusePort?: boolean;
}

/** Which forwarded port serves an original destination, for listeners without a key. No endpoint may be one. */
export interface Destination extends VirtualServerId {
  readonly key: string;
}

/**
 * The ports and listeners that the engine is to have. Applying an update twice is the same as applying it once. It
 * replaces what has the same key or address; connections to endpoints that remain are not touched.
 */
export interface EngineUpdate {
  /** Whether everything that is not named here ends; then the three lists of what ends are not needed. */
  readonly whole: boolean;
  readonly ports?: readonly ForwardedPort[];
  readonly endedPorts?: readonly string[];
  readonly listeners?: readonly Listener[];
  readonly endedListeners?: readonly VirtualServerId[];
  readonly destinations?: readonly Destination[];
  readonly endedDestinations?: readonly VirtualServerId[];
}
