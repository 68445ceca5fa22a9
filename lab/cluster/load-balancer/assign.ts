import { type Service, FINALIZER, addressesOf, keyOf, wantsAddresses } from './service.ts';

/** How a Service changes; the fields that are undefined stay as they are. */
export interface Change {
  readonly service: Service;
  readonly finalizers?: readonly string[];
  readonly addresses?: readonly string[];
}

/**
 * What must change so that each Service that wants addresses has one of each of its families, and no other Service has
 * one. Addresses that somebody else has written stay.
 *
 * @param addresses those of the range, by family ("IPv4"), in the order in which they are given
 */
export function assign(
  services: readonly Service[],
  addresses: Readonly<Record<string, readonly string[]>>,
): readonly Change[] {
  const taken = new Set(services.flatMap((service) => addressesOf(service)));
  const take = (family: string): string => {
    const free = addresses[family]?.find((address) => !taken.has(address));
    if (free === undefined) throw new Error(`the range has no more addresses of ${family}`);
    taken.add(free);
    return free;
  };
  return services.flatMap((service) => {
    const finalizers = service.metadata.finalizers ?? [];
    const held = finalizers.includes(FINALIZER);
    if (!wantsAddresses(service)) {
      if (!held) return [];
      return [{ service, finalizers: finalizers.filter((name) => name !== FINALIZER), addresses: [] }];
    }
    const change: Change = {
      service,
      ...(held ? {} : { finalizers: [...finalizers, FINALIZER] }),
      ...(addressesOf(service).length > 0 ? {} : { addresses: (service.spec.ipFamilies ?? []).map(take) }),
    };
    return Object.keys(change).length === 1 ? [] : [change];
  });
}

/** Names of the Services that change, for a line of the log. */
export function changeLine({ service, addresses, finalizers }: Change): string {
  const what = [
    ...(addresses === undefined ? [] : [addresses.length === 0 ? 'no addresses' : addresses.join(', ')]),
    ...(finalizers === undefined ? [] : [finalizers.includes(FINALIZER) ? 'held' : 'released']),
  ];
  return `${keyOf(service)}: ${what.join('; ')}`;
}
