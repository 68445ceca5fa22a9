import { type NamespacedName, splitName } from '../base/service/names.ts';

interface OfService {
  readonly service: NamespacedName;
}

/** Items that wait for their turn: that of their namespace among all, and of their Service in it. */
export class Turns<T extends OfService> {
  readonly #namespaces = new Map<string, Map<NamespacedName, Set<T>>>();

  get isEmpty(): boolean {
    return this.#namespaces.size === 0;
  }

  add(item: T): void {
    const { namespace } = splitName(item.service);
    const services = this.#namespaces.get(namespace) ?? new Map<NamespacedName, Set<T>>();
    const items = services.get(item.service) ?? new Set();
    this.#namespaces.set(namespace, services.set(item.service, items.add(item)));
  }

  delete(item: T): void {
    const { namespace } = splitName(item.service);
    const services = this.#namespaces.get(namespace);
    const items = services?.get(item.service);
    items?.delete(item);
    if (items?.size === 0) services?.delete(item.service);
    if (services?.size === 0) this.#namespaces.delete(namespace);
  }

  /** Removes and returns the next item. Its namespace and Service come last from then on. */
  take(): T | undefined {
    for (const [namespace, services] of this.#namespaces) {
      for (const [service, items] of services) {
        for (const item of items) {
          moveLast(this.#namespaces, namespace, services);
          moveLast(services, service, items);
          this.delete(item);
          return item;
        }
      }
    }
    return undefined;
  }
}

function moveLast<K, V>(map: Map<K, V>, key: K, value: V): void {
  map.delete(key);
  map.set(key, value);
}
