import type { IpAddress } from '../../base/ip.ts';

/** A network namespace, and which of the Pods' addresses it has. */
export interface NamespaceClaim {
  readonly path: string;
  readonly interfaces: readonly string[];
  readonly addresses: readonly IpAddress[];
}

export interface SettledOwners {
  /** The path of each Pod's namespace. */
  readonly owners: ReadonlyMap<IpAddress, string>;
  /** Why a Pod has no namespace. */
  readonly refused: ReadonlyMap<IpAddress, string>;
  /** Namespaces of which one may be a Pod's, but it is not known which. */
  readonly contested: ReadonlySet<string>;
}

/**
 * Which network namespace is a Pod's. A Pod with NET_ADMIN can give itself any address, so the address alone does not
 * say it: the node's route to the address must lead into the namespace. Behind a bridge, it leads to all of them; then the
 * namespace that had the address first stays the Pod's.
 */
export class PodOwners {
  #owners: ReadonlyMap<IpAddress, string> = new Map();

  /** @param ways the interface through which the node sends packets to each Pod */
  settle(
    pods: ReadonlySet<IpAddress>,
    ways: ReadonlyMap<IpAddress, string>,
    claims: readonly NamespaceClaim[],
  ): SettledOwners {
    const owners = new Map<IpAddress, string>();
    const refused = new Map<IpAddress, string>();
    const contested = new Set<string>();
    for (const pod of pods) {
      const claimants = claims.filter(({ addresses }) => addresses.includes(pod));
      const way = ways.get(pod) ?? 'no interface';
      const paths = claimants.filter(({ interfaces }) => interfaces.includes(way)).map(({ path }) => path);
      const known = this.#owners.get(pod);
      const [owner] = known !== undefined && paths.includes(known) ? [known] : paths;
      if (owner !== undefined && (paths.length === 1 || owner === known)) owners.set(pod, owner);
      else if (owner !== undefined) {
        refused.set(pod, `several network namespaces have its address: ${paths.join(', ')}`);
        for (const path of paths) contested.add(path);
      } else if (claimants.length === 0) refused.set(pod, 'no network namespace has its address');
      else {
        const [{ path } = { path: '' }] = claimants;
        refused.set(
          pod,
          `${path} has its address, but this node sends packets to it through ${way}, which leads elsewhere`,
        );
      }
    }
    this.#owners = owners;
    return { owners, refused, contested };
  }
}
