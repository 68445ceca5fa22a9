import { type VirtualServerId, type VirtualServerKey, virtualServerKey } from '../state/virtual-server.ts';
import type { Destination, EngineUpdate, ForwardedPort, Listener } from './engine-update.ts';

/** The sum of all updates: what an engine that starts again needs. */
export class WantedState {
  readonly #ports = new Map<string, ForwardedPort>();
  readonly #listeners = new Map<VirtualServerKey, Listener>();
  readonly #destinations = new Map<VirtualServerKey, Destination>();

  apply(update: EngineUpdate): void {
    if (update.whole) for (const map of [this.#ports, this.#listeners, this.#destinations]) map.clear();
    for (const port of update.ports ?? []) this.#ports.set(port.key, port);
    for (const key of update.endedPorts ?? []) this.#ports.delete(key);
    change(this.#listeners, update.listeners, update.endedListeners);
    change(this.#destinations, update.destinations, update.endedDestinations);
  }

  get update(): EngineUpdate {
    return {
      whole: true,
      ports: [...this.#ports.values()],
      listeners: [...this.#listeners.values()],
      destinations: [...this.#destinations.values()],
    };
  }
}

function change<T extends VirtualServerId>(
  map: Map<VirtualServerKey, T>,
  set: readonly T[] = [],
  ended: readonly VirtualServerId[] = [],
): void {
  for (const id of ended) map.delete(virtualServerKey(id));
  for (const one of set) map.set(virtualServerKey(one), one);
}
