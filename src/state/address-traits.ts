import { type Cidr, compareCidr } from '../base/cidr.ts';

/** What an address is to its Service. */
export type AddressKind = 'cluster' | 'nodePort' | 'loadBalancer' | 'external';

/** The clients that a load balancer IP with source ranges admits. */
export interface AdmittedSources {
  /** The fewest that contain these clients, sorted. */
  readonly ranges: readonly Cidr[];
  /** Also the address itself: connections of this node have it as source if it is bound, and their own address is in a range. */
  readonly itself: boolean;
}

/** What the rules need to know of a virtual server's address, beside its endpoints. */
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

/** Addresses without source ranges share the object. */
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
