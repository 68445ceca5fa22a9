import type { RemoteInfo } from 'node:dgram';
import type { Socket } from 'node:net';
import { type VirtualServerId, type VirtualServerKey, virtualServerKey } from '../state/virtual-server.ts';
import { Admission } from './admission.ts';
import { ClientAffinity } from './client-affinity.ts';
import type { EngineLimits } from './engine-limits.ts';
import {
  type EngineCounters,
  type EngineReport,
  type EngineTraffic,
  type PortTraffic,
  type RefusedListener,
  addCounts,
  noCounts,
} from './engine-report.ts';
import type { Backend, EngineUpdate, ForwardedPort, Listener } from './engine-update.ts';
import { type ListenerSlot, ListenerTable } from './listener-table.ts';
import type { OpenListener } from './open-listener.ts';
import type { RelaySocket } from './relay-socket.ts';
import { type EndpointRules, ServiceEndpoints, type UsedEndpoint } from './service-endpoints.ts';
import { listenTcp } from './tcp-listener.ts';
import { TcpSession } from './tcp-session.ts';
import { listenUdp } from './udp-listener.ts';

/** Returns where a client connected to before the kernel redirected it to a listener without a key. */
export type OriginalDestination = (
  listener: Listener,
  client: Socket | RemoteInfo,
) => Pick<VirtualServerId, 'address' | 'port'> | undefined;

export interface EngineOptions {
  readonly limits: EngineLimits;
  /** Needed for listeners without a key. */
  readonly originalDestination?: OriginalDestination;
  /** Called when a listener is refused, and when the reason changes; the engine tries it again. */
  readonly onRefused: (refused: RefusedListener) => void;
}

/** Forwards TCP connections and UDP clients of Service ports to their endpoints. */
export class Engine {
  readonly #rules: EndpointRules = {
    affinity: new ClientAffinity<UsedEndpoint>(),
    isLoop: (port, endpoint) => this.#isLoop(port, endpoint),
  };
  readonly #options: EngineOptions;
  readonly #admission: Admission;
  readonly #listeners: ListenerTable;
  readonly #ports = new Map<string, ServiceEndpoints>();
  /** Ports that have ended and still have connections. */
  readonly #draining = new Set<ServiceEndpoints>();
  readonly #destinations = new Map<VirtualServerKey, string>();
  /** The counts of ports that have ended, and of clients of no port. */
  readonly #past: EngineCounters = noCounts();

  constructor(options: EngineOptions) {
    this.#options = options;
    this.#admission = new Admission(options.limits);
    this.#listeners = new ListenerTable({ open: (slot) => this.#open(slot), onRefused: options.onRefused });
  }

  /** Resolves when each new listener listens or was refused. */
  async apply(update: EngineUpdate): Promise<void> {
    const { whole, ports = [], listeners = [], destinations = [] } = update;
    for (const port of ports) this.#setPort(port);
    if (whole) this.#destinations.clear();
    for (const destination of destinations) this.#destinations.set(virtualServerKey(destination), destination.key);
    for (const id of update.endedDestinations ?? []) this.#destinations.delete(virtualServerKey(id));
    if (whole) this.#listeners.keepOnly(listeners);
    for (const id of update.endedListeners ?? []) this.#listeners.end(id);
    const opened = listeners.map((listener) => this.#listeners.set(listener));
    const named = new Set(ports.map(({ key }) => key));
    const ended = whole ? [...this.#ports.keys()].filter((key) => !named.has(key)) : update.endedPorts;
    for (const key of ended ?? []) this.#endPort(key);
    await Promise.all(opened);
  }

  report(): EngineReport {
    const totals = { ...this.#past };
    for (const { counts } of [...this.#ports.values(), ...this.#draining]) addCounts(totals, counts);
    return { totals, listening: this.#listeners.listening, refusedListeners: this.#listeners.refused };
  }

  /** Returns the traffic of these ports; those that it does not have are absent. */
  traffic(keys: Iterable<string> = this.#ports.keys()): EngineTraffic {
    const traffic = new Map<string, PortTraffic>();
    for (const key of keys) {
      const port = this.#ports.get(key);
      if (port !== undefined) traffic.set(key, port.traffic);
    }
    return traffic;
  }

  /** Closes every listener and resets every connection. */
  close(): void {
    this.#listeners.keepOnly([]);
    for (const port of [...this.#ports.values(), ...this.#draining]) {
      for (const session of port.sessions) session.reset();
    }
  }

  #setPort(port: ForwardedPort): void {
    const known = this.#ports.get(port.key);
    if (known === undefined) this.#ports.set(port.key, new ServiceEndpoints(port, this.#rules));
    else known.update(port);
  }

  #endPort(key: string): void {
    const port = this.#ports.get(key);
    if (port === undefined) return;
    this.#ports.delete(key);
    this.#draining.add(port);
    port.update({ ...port.port, endpoints: [] });
    port.whenIdle(() => {
      if (this.#draining.delete(port)) addCounts(this.#past, port.counts);
    });
  }

  async #open(slot: ListenerSlot): Promise<OpenListener> {
    switch (slot.listener.protocol) {
      case 'TCP':
        return await listenTcp(slot.listener, (client) => this.#accepted(slot, client));
      case 'UDP':
        return await listenUdp(slot.listener, {
          portOf: (client) => this.#portOf(slot, client),
          admit: (port, client) => this.#admission.admit(port.port.service, client.address),
          idleMs: this.#options.limits.udpIdleMs,
        });
      case 'SCTP':
        throw Object.assign(new Error('Node.js has no SCTP'), { code: 'EPROTONOSUPPORT' });
    }
  }

  #accepted(slot: ListenerSlot, client: RelaySocket): void {
    const port = this.#portOf(slot, client);
    const release = port && this.#admission.admit(port.port.service, client.remoteAddress ?? '');
    if (typeof release === 'function') {
      new TcpSession(client, port as ServiceEndpoints, this.#options.limits, release);
      return;
    }
    if (port !== undefined) port.counters.refused += 1;
    client.on('error', () => undefined).resetAndDestroy();
  }

  #isLoop({ protocol }: ForwardedPort, { address, port }: Backend): boolean {
    const id = { address, port, protocol };
    return this.#listeners.listensAt(id) || this.#destinations.has(virtualServerKey(id));
  }

  #portOf({ listener }: ListenerSlot, client: Socket | RemoteInfo): ServiceEndpoints | undefined {
    const port = this.#ports.get(listener.key ?? this.#originalKey(listener, client) ?? '');
    if (port === undefined) this.#past.refused += 1;
    return port;
  }

  #originalKey(listener: Listener, client: Socket | RemoteInfo): string | undefined {
    const original = this.#options.originalDestination?.(listener, client);
    if (original === undefined) return undefined;
    return this.#destinations.get(virtualServerKey({ ...original, protocol: listener.protocol }));
  }
}
