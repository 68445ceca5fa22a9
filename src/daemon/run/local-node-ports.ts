import type { NamespacedName } from '../../base/service/names.ts';
import { servicePortName } from '../../base/service/service-port-name.ts';
import type { ProxyConfig } from '../../config/proxy-config.ts';
import type { Log } from '../../observe/log/log.ts';
import type { PlannedLocalNodePort } from '../../plan/service-plan.ts';
import {
  type VirtualServerId,
  type VirtualServerKey,
  formatVirtualServer,
  virtualServerKey,
} from '../../state/virtual-server.ts';
import type { EngineLimits } from '../../userspace/engine-limits.ts';
import type { EngineReport, RefusedListener } from '../../userspace/engine-report.ts';
import type { EngineThread } from '../../userspace/engine-thread.ts';
import type { EngineScheduler, EngineUpdate } from '../../userspace/engine-update.ts';

type Changes = ReadonlyMap<NamespacedName, readonly PlannedLocalNodePort[]>;

/** What a Service claims: a node port at a loopback address. */
interface Claim {
  readonly service: NamespacedName;
  readonly planned: PlannedLocalNodePort;
}

/** Which Service has which node port. The API server gives a port to one Service only; manifests may not. */
export class LocalNodePortClaims {
  readonly #ofService = new Map<NamespacedName, readonly PlannedLocalNodePort[]>();
  readonly #claims = new Map<VirtualServerKey, readonly Claim[]>();

  /** Returns what the engine has to change: of several Services that claim a port, the first by name gets it. */
  change(changes: Changes): EngineUpdate {
    const touched = new Map<VirtualServerKey, VirtualServerId>();
    for (const [service, ports] of changes) {
      for (const planned of this.#ofService.get(service) ?? []) {
        const key = virtualServerKey(planned);
        touched.set(key, planned);
        this.#set(
          key,
          this.#claimsOf(key).filter((claim) => claim.service !== service),
        );
      }
      for (const planned of ports) {
        const key = virtualServerKey(planned);
        touched.set(key, planned);
        this.#set(key, [...this.#claimsOf(key), { service, planned }]);
      }
      if (ports.length === 0) this.#ofService.delete(service);
      else this.#ofService.set(service, ports);
    }
    return updateOf(touched, (key) => this.#owner(key));
  }

  /** Returns the Service port of a node port, as "default/web:http". */
  servicePort(id: VirtualServerId): string {
    const owner = this.owner(id);
    return owner === undefined ? 'a deleted Service' : servicePortName(owner.service, owner.planned.portName);
  }

  /** Returns which Service has a node port; undefined: none. */
  owner(id: VirtualServerId): Claim | undefined {
    return this.#owner(virtualServerKey(id));
  }

  #claimsOf(key: VirtualServerKey): readonly Claim[] {
    return this.#claims.get(key) ?? [];
  }

  #owner(key: VirtualServerKey): Claim | undefined {
    return this.#claimsOf(key)[0];
  }

  #set(key: VirtualServerKey, claims: readonly Claim[]): void {
    if (claims.length === 0) this.#claims.delete(key);
    else this.#claims.set(key, claims.length === 1 ? claims : claims.toSorted(byService));
  }
}

function byService(a: Claim, b: Claim): number {
  return a.service < b.service ? -1 : Number(a.service > b.service);
}

function updateOf(
  touched: ReadonlyMap<VirtualServerKey, VirtualServerId>,
  ownerOf: (key: VirtualServerKey) => Claim | undefined,
): EngineUpdate {
  const owned = Array.from(touched.keys(), ownerOf).filter((owner) => owner !== undefined);
  const ended = Array.from(touched).flatMap(([key, id]) => (ownerOf(key) === undefined ? [id] : []));
  return {
    whole: false,
    ports: owned.map(({ service, planned }) => ({
      key: formatVirtualServer(planned),
      service,
      protocol: planned.protocol,
      endpoints: planned.realServers,
      choice: choiceOf(planned),
      affinitySeconds: planned.affinitySeconds,
    })),
    listeners: owned.map(({ planned }) => ({ ...idOf(planned), key: formatVirtualServer(planned) })),
    endedPorts: ended.map(formatVirtualServer),
    endedListeners: ended.map(idOf),
  };
}

function idOf({ address, port, protocol }: VirtualServerId): VirtualServerId {
  return { address, port, protocol };
}

/** Schedulers of IPVS that the engine does not have, and that count connections as `wlc` does. */
const FEWEST: ReadonlySet<string> = new Set(['sed', 'nq']);

function choiceOf({ scheduler, realServers }: PlannedLocalNodePort): EngineScheduler {
  if (scheduler === 'lc' || scheduler === 'wlc') return scheduler;
  if (FEWEST.has(scheduler)) return 'wlc';
  return realServers.some(({ weight }) => weight !== realServers[0]?.weight) ? 'wrr' : 'rr';
}

export interface LocalNodePortsOptions {
  readonly limits: EngineLimits;
  readonly log: Log;
  /** Called when a listener was refused. @param service undefined if no Service wants the port any more */
  readonly onRefused: (refused: RefusedListener, service: NamespacedName | undefined, text: string) => void;
}

/** Serves node ports at loopback addresses by the user-space engine, which is loaded when the first one is wanted. */
export class LocalNodePorts {
  readonly #options: LocalNodePortsOptions;
  readonly #claims = new LocalNodePortClaims();
  #engine: EngineThread | undefined;
  #work: Promise<void> = Promise.resolve();
  #closed = false;

  constructor(options: LocalNodePortsOptions) {
    this.#options = options;
  }

  /** Applies the changes of a sync, in order. Resolves when new ports are open or were refused. */
  publish(changes: Changes): Promise<void> {
    if (changes.size === 0) return this.#work;
    const update = this.#claims.change(changes);
    this.#work = this.#work.then(() => this.#apply(update));
    return this.#work;
  }

  /** Undefined while nothing is served. */
  async report(): Promise<EngineReport | undefined> {
    return await this.#engine?.report();
  }

  /** Returns the sentence about a listener that was refused. */
  refusedText({ code, owner, ...id }: RefusedListener): string {
    const what = `the node port ${formatVirtualServer(id)} of ${this.#claims.servicePort(id)} is not served`;
    if (code === 'EPROTONOSUPPORT') return `${what}: Node.js has no sockets of SCTP`;
    if (code !== 'EADDRINUSE') return `${what}: ${code}; it is tried again`;
    return `${what}: ${owner ?? `another program (see \`ss -lnp 'sport = :${id.port}'\`)`} has the port; it is tried again`;
  }

  async close(): Promise<void> {
    this.#closed = true;
    await this.#work;
    await this.#engine?.close();
  }

  async #apply(update: EngineUpdate): Promise<void> {
    if (this.#closed || (this.#engine === undefined && update.listeners?.length === 0)) return;
    this.#engine ??= await this.#start();
    await this.#engine.apply(update);
  }

  async #start(): Promise<EngineThread> {
    const { limits, log, onRefused } = this.#options;
    const { EngineThread: Thread } = await import('../../userspace/engine-thread.ts');
    return new Thread({
      limits,
      onRefused: (refused) => {
        const text = this.refusedText(refused);
        log.warn(text);
        onRefused(refused, this.#claims.owner(refused)?.service, text);
      },
      onFailure: (reason) => log.error(`the engine of local node ports ended, and is started again: ${reason}`),
    });
  }
}

/** The limits of the engine: the timeouts are those of connection tracking, which the other addresses have. */
export function engineLimitsOf(config: ProxyConfig): EngineLimits {
  return {
    mostOfService: Math.ceil(config.userspaceConnections / 2),
    mostInAll: config.userspaceConnections,
    tcpIdleMs: config.conntrack.tcpEstablishedTimeout,
    tcpHalfClosedIdleMs: config.conntrack.tcpCloseWaitTimeout,
    udpIdleMs: config.userspaceUdpTimeout,
    drainMs: config.drainTimeout,
  };
}
