import type { EndpointSlice, Service } from '../../src/kube/objects/objects.ts';
import type { SourceEvent } from '../../src/kube/objects/source.ts';
import { port, service, slice } from './objects.ts';

/** A Service with many ports, and slices that give each of them many endpoints. */
export class LargeService {
  readonly service: Service;
  readonly #ports: readonly number[];

  constructor(ports: number) {
    this.#ports = Array.from({ length: ports }, (_, n) => 1_000 + n);
    this.service = service('large', '10.96.0.10', {
      ports: this.#ports.map((number) => port(number, { name: `p${number}` })),
    });
  }

  /** Without the endpoints in `without`, which are numbered from 0. */
  slice(endpoints: number, without: readonly number[] = []): EndpointSlice {
    const addresses = Array.from({ length: endpoints }, (_, n) => `10.244.${n >> 8}.${n & 255}`);
    const ports = this.#ports.map((number) => ({ name: `p${number}`, protocol: 'TCP' as const, port: number }));
    const left = addresses.filter((_, n) => !without.includes(n));
    return slice('large', left, { ports });
  }
}

export function sliceApplied(object: EndpointSlice): SourceEvent {
  return { kind: 'endpoint-slice', event: { type: 'applied', object } };
}
