import { constants } from 'node:os';
import { familyOf } from '../../base/ip.ts';
import type { Port } from '../../base/port.ts';
import type { Refusal } from '../../state/outcome.ts';
import type { Endpoint } from '../../state/real-server.ts';
import {
  type VirtualServerId,
  type VirtualServerKey,
  formatVirtualServer,
  virtualServerKey,
} from '../../state/virtual-server.ts';
import type { Listener } from '../../userspace/engine-update.ts';
import type { NodeAddress } from '../kernel.ts';
import { EngineAddresses } from './engine-addresses.ts';
import { EngineListeners } from './engine-listeners.ts';
import type { EnginePort } from './engine-port.ts';
import { engineKey, forwardingOf } from './engine-state.ts';
import { type ForwardedServer, isServed } from './forwarded-server.ts';

/** An engine that does nothing. */
export const SILENT_ENGINE: EnginePort = {
  apply: () => Promise.resolve(),
  report: () => Promise.resolve(undefined),
  traffic: () => Promise.resolve(undefined),
  stopListening: () => Promise.resolve(),
  drain: () => Promise.resolve(),
  close: () => Promise.resolve(),
};

/** How often a port is tried that no other program has. */
const ATTEMPTS = 8;

/** The virtual servers that the engine forwards. The kernel has nothing of them but what leads to the engine. */
export class EngineServers {
  readonly #engine: () => EnginePort;
  readonly #servers = new Map<VirtualServerKey, ForwardedServer>();
  readonly #addresses: EngineAddresses;
  readonly #listeners = new EngineListeners();
  /** The listeners that the engine has, as text. */
  readonly #open = new Set<string>();

  constructor(engine: () => EnginePort, addresses = new EngineAddresses()) {
    this.#engine = engine;
    this.#addresses = addresses;
  }

  /** Returns a copy that changes nothing of the engine. */
  copy(): EngineServers {
    const copy = new EngineServers(() => SILENT_ENGINE, this.#addresses);
    for (const [key, server] of this.#servers) {
      copy.#servers.set(key, server);
      if (server.listensOn !== undefined) copy.#listeners.take(server.virtualServer, server.listensOn);
    }
    return copy;
  }

  /** Those with endpoints, for which the engine listens. */
  get served(): ForwardedServer[] {
    return [...this.#servers.values()].filter((server) => this.target(server) !== undefined);
  }

  get(id: VirtualServerId): ForwardedServer | undefined {
    return this.#servers.get(virtualServerKey(id));
  }

  /** Returns where the connections of a virtual server are led to; undefined if it has no endpoint, or nothing listens. */
  target(server: ForwardedServer): Endpoint | undefined {
    const { virtualServer, listensOn: port } = server;
    const address = this.#addresses.of(familyOf(virtualServer.address));
    return port === undefined || !isServed(server) ? undefined : { address, port };
  }

  /** Chooses the addresses to listen at. Where they are others than before, everything listens there from now on. */
  async useAddresses(all: readonly NodeAddress[]): Promise<void> {
    if (!this.#addresses.choose(all) || this.#servers.size === 0) return;
    const { ports, destinations, listeners } = forwardingOf(this.#servers.values(), (family) =>
      this.#addresses.of(family),
    );
    this.#open.clear();
    await this.#engine().apply({ whole: true, ports, destinations, listeners });
    // Those of refused ports have none now: they differ from what is planned, and get others.
    await this.#opened(listeners);
  }

  /** Whether it must listen at another address. */
  mustMove(all: readonly NodeAddress[]): boolean {
    return this.#addresses.isOutdated(all);
  }

  /**
   * Gives the engine virtual servers, each with a listener if it has endpoints. Nothing of an earlier state is ended yet.
   *
   * @param portOf the port that leads to the engine so far
   * @returns why some of them are not served
   */
  async begin(
    servers: readonly ForwardedServer[],
    portOf: (id: VirtualServerId) => Port | undefined,
  ): Promise<Map<VirtualServerKey, Refusal>> {
    const refusals = new Map<VirtualServerKey, Refusal>();
    let waiting = servers;
    for (let attempt = 1; waiting.length > 0; attempt++) {
      const given = waiting.map((server) => this.#withPort(server, portOf, refusals));
      for (const server of given) this.#servers.set(virtualServerKey(server.virtualServer), server);
      const taken = await this.#listen(given);
      waiting = given.filter(({ listensOn }) => listensOn !== undefined && taken.has(listensOn));
      if (attempt < ATTEMPTS) continue;
      for (const { virtualServer } of waiting) refusals.set(virtualServerKey(virtualServer), NO_PORT);
      break;
    }
    return refusals;
  }

  /** Ends what the engine has of virtual servers that are gone or have no endpoint, when nothing leads to it any more. */
  async end(ids: readonly VirtualServerId[]): Promise<void> {
    const endedPorts: string[] = [];
    const endedDestinations: VirtualServerId[] = [];
    const endedListeners: VirtualServerId[] = [];
    for (const id of ids) {
      const server = this.get(id);
      if (server === undefined) continue;
      const { virtualServer, listensOn } = server;
      endedPorts.push(engineKey(virtualServer));
      endedDestinations.push(virtualServer);
      const address = this.#addresses.of(familyOf(virtualServer.address));
      if (listensOn === undefined) continue;
      this.#listeners.release(virtualServer, listensOn);
      if (virtualServer.protocol !== 'UDP') continue;
      const listener = { address, port: listensOn, protocol: virtualServer.protocol };
      this.#open.delete(formatVirtualServer(listener));
      endedListeners.push(listener);
    }
    if (endedPorts.length > 0)
      await this.#engine().apply({ whole: false, endedPorts, endedDestinations, endedListeners });
  }

  /** Notes what a virtual server without a listener has. */
  note(server: ForwardedServer): void {
    this.#servers.set(virtualServerKey(server.virtualServer), { ...server, listensOn: undefined });
  }

  forget(id: VirtualServerId): void {
    this.#servers.delete(virtualServerKey(id));
  }

  #withPort(
    server: ForwardedServer,
    portOf: (id: VirtualServerId) => Port | undefined,
    refusals: Map<VirtualServerKey, Refusal>,
  ): ForwardedServer {
    const { virtualServer } = server;
    const port = this.get(virtualServer)?.listensOn ?? this.#listeners.take(virtualServer, portOf(virtualServer));
    if (port === undefined) refusals.set(virtualServerKey(virtualServer), NO_PORT);
    return { ...server, listensOn: port };
  }

  /** Returns the ports that another program has. */
  async #listen(servers: readonly ForwardedServer[]): Promise<ReadonlySet<Port>> {
    const { ports, destinations, listeners } = forwardingOf(servers, (family) => this.#addresses.of(family));
    const added = listeners.filter((listener) => !this.#open.has(formatVirtualServer(listener)));
    if (ports.length === 0) return new Set();
    await this.#engine().apply({ whole: false, ports, destinations, listeners: added });
    return await this.#opened(added);
  }

  /** Notes the listeners that were given to the engine. Returns the ports that another program has. */
  async #opened(added: readonly Listener[]): Promise<ReadonlySet<Port>> {
    for (const listener of added) this.#open.add(formatVirtualServer(listener));
    if (added.length === 0) return new Set();
    const names = new Set(added.map(formatVirtualServer));
    const refused = ((await this.#engine().report())?.refusedListeners ?? []).filter((each) =>
      names.has(formatVirtualServer(each)),
    );
    for (const listener of refused) this.#avoid(listener);
    if (refused.length > 0) await this.#engine().apply({ whole: false, endedListeners: refused });
    return new Set(refused.map(({ port }) => port));
  }

  #avoid(listener: VirtualServerId): void {
    this.#open.delete(formatVirtualServer(listener));
    this.#listeners.avoid(listener);
    const family = familyOf(listener.address);
    for (const [key, server] of this.#servers) {
      const { address, protocol } = server.virtualServer;
      if (server.listensOn !== listener.port || protocol !== listener.protocol || familyOf(address) !== family)
        continue;
      this.#servers.set(key, { ...server, listensOn: undefined });
    }
  }
}

const NO_PORT: Refusal = {
  errno: constants.errno.EADDRINUSE,
  code: 'EADDRINUSE',
  text: 'other programs have the ports at which connections would be taken',
};
