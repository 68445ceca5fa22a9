import type { Cidr } from '../net/cidr.ts';
import { cidrContains } from '../net/cidr.ts';
import type { IpAddress } from '../net/ip.ts';
import { SET_ROLES, type SetRole, setName } from '../plan/set-names.ts';
import type { IpSetEntry } from '../state/ip-set.ts';
import { type VirtualServerId, type VirtualServerKey, virtualServerKey } from '../state/virtual-server.ts';

/** The sets that name virtual servers: an entry is written before its virtual server, and outlives it. */
const ADDRESS_ROLES: readonly SetRole[] = SET_ROLES.filter((role) =>
  /^(CLUSTER-IP|EXTERNAL-IP|LOAD-BALANCER|NODE-PORT(-LOCAL)?-SCTP-HASH)/.test(role),
);

/**
 * Tells our virtual servers from those of others on the same node (keepalived, for one). The kernel keeps no owner, but what we
 * (or kube-proxy before us) made is marked: its address is bound to kube-ipvs0, or one of the KUBE- sets names it. Read from
 * the kernel before the first write, so it holds over restarts and take-overs too.
 */
export class Ownership {
  readonly #excluded: readonly Cidr[];
  readonly #addresses: ReadonlySet<IpAddress>;
  readonly #named = new Set<VirtualServerKey>();
  readonly #nodePorts = new Set<string>();

  constructor(
    sets: Iterable<{ readonly name: string; readonly entries: readonly IpSetEntry[] }>,
    boundAddresses: Iterable<IpAddress>,
    excluded: readonly Cidr[],
  ) {
    this.#excluded = excluded;
    this.#addresses = new Set(boundAddresses);
    for (const set of sets) {
      const portsOf = NODE_PORT_SETS.get(set.name);
      const named = ADDRESS_SETS.has(set.name);
      if (portsOf === undefined && !named) continue;
      for (const entry of set.entries) {
        if (entry.type === 'bitmap:port') this.#nodePorts.add(`${portsOf} ${entry.port}`);
        else if (named && entry.type === 'hash:ip,port') this.#named.add(virtualServerKey(entry));
      }
    }
  }

  owns(id: VirtualServerId): boolean {
    if (this.#excluded.some((cidr) => cidrContains(cidr, id.address))) return false;
    return (
      this.#addresses.has(id.address) ||
      this.#named.has(virtualServerKey(id)) ||
      this.#nodePorts.has(`${id.protocol} ${id.port}`)
    );
  }
}

const ADDRESS_SETS: ReadonlySet<string> = new Set(
  ADDRESS_ROLES.flatMap((role) => [setName(role, 4), setName(role, 6)]),
);

const NODE_PORT_SETS: ReadonlyMap<string, string> = new Map(
  (['TCP', 'UDP'] as const).flatMap((protocol) =>
    ([4, 6] as const).flatMap((family) => [
      [setName(`NODE-PORT-${protocol}`, family), protocol] as const,
      [setName(`NODE-PORT-LOCAL-${protocol}`, family), protocol] as const,
    ]),
  ),
);
