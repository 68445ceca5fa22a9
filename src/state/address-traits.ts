import { type Cidr, compareCidr } from '../base/cidr.ts';

/** The kind of a service address. */
export type AddressKind = 'cluster' | 'nodePort' | 'loadBalancer' | 'external';

/** The clients that a load balancer IP with source ranges admits. */
export interface AdmittedSources {
  /** The networks that contain these clients, sorted. */
  readonly ranges: readonly Cidr[];
  /**
   * Whether the address itself is admitted: connections of this node have it as source if it is bound, and an address
   * of the node is in a range.
   */
  readonly itself: boolean;
}

/** The properties of a virtual server's address on which the rules depend. */
export interface AddressTraits {
  readonly kind: AddressKind;
  /** Whether clients outside of the cluster are not masqueraded; always true of a cluster IP. */
  readonly keepsSource: boolean;
  /** Absent: all clients are admitted. */
  readonly admitted?: AdmittedSources;
}

const SHARED: Readonly<Record<AddressKind, readonly [masquerading: AddressTraits, keeping: AddressTraits]>> = {
  cluster: pair('cluster'),
  nodePort: pair('nodePort'),
  loadBalancer: pair('loadBalancer'),
  external: pair('external'),
};

function pair(kind: AddressKind): readonly [AddressTraits, AddressTraits] {
  return [
    { kind, keepsSource: false },
    { kind, keepsSource: true },
  ];
}

/** Returns one shared object for all addresses of a kind without source ranges. */
export function addressTraits(kind: AddressKind, keepsSource: boolean, admitted?: AdmittedSources): AddressTraits {
  return admitted === undefined ? SHARED[kind][Number(keepsSource) as 0 | 1] : { kind, keepsSource, admitted };
}

export function hasSameTraits(a: AddressTraits | undefined, b: AddressTraits | undefined): boolean {
  if (a === b || a === undefined || b === undefined) return a === b;
  return a.kind === b.kind && a.keepsSource === b.keepsSource && admitsSame(a.admitted, b.admitted);
}

function admitsSame(a: AdmittedSources | undefined, b: AdmittedSources | undefined): boolean {
  if (a === b || a === undefined || b === undefined) return a === b;
  return (
    a.itself === b.itself &&
    a.ranges.length === b.ranges.length &&
    a.ranges.every((range, at) => compareCidr(range, b.ranges[at] ?? range) === 0)
  );
}
