import { type Cidr, cidrContains } from '../../base/cidr.ts';
import { IP_FAMILIES, type IpAddress } from '../../base/ip.ts';
import { MODES } from '../../base/proxy-mode.ts';
import type { Kernel } from '../../kernel/kernel.ts';
import type { NodePlan } from '../../plan/node/node-plan.ts';
import { SET_ROLES, setKind, setName } from '../../state/set-roles.ts';
import type { IpSetEntry } from '../../state/ip-set.ts';
import { type VirtualServerId, type VirtualServerKey, virtualServerKey } from '../../state/virtual-server.ts';

/** Kernel state that proves ownership. It must be read before the first write of a sync. */
export interface OwnershipEvidence {
  readonly sets: Iterable<{ readonly name: string; readonly entries: readonly IpSetEntry[] }>;
  /** Addresses bound to kube-ipvs0. */
  readonly boundAddresses: Iterable<IpAddress>;
  /**
   * Addresses of the node's other interfaces if KUBE-NODE-PORT-IP did not exist at start (kube-proxy does not write
   * it); otherwise empty.
   */
  readonly interfaceAddresses: Iterable<IpAddress>;
  /** Virtual servers at these addresses are never ours. */
  readonly excluded: readonly Cidr[];
}

/** The sets of addresses that serve NodePorts, one per family. */
export const NODE_PORT_ADDRESS_SETS: readonly string[] = [setName('NODE-PORT-IP', 4), setName('NODE-PORT-IP', 6)];

/**
 * Distinguishes our virtual servers from those of other programs on the node, such as keepalived. The kernel stores no
 * owner, but a virtual server of this program or kube-proxy can be recognized: its address is bound to kube-ipvs0, or a
 * KUBE- set contains its address and port. The sets of node ports contain only ports. A virtual server of a node port is
 * therefore ours if KUBE-NODE-PORT-IP contains its address, even if the node no longer has that address. All of this is
 * kernel state, so it survives restarts.
 */
export class Ownership {
  readonly #excluded: readonly Cidr[];
  readonly #addresses: ReadonlySet<IpAddress>;
  readonly #named = new Set<VirtualServerKey>();
  readonly #nodePorts = new Set<string>();
  readonly #nodePortAddresses: Set<IpAddress>;

  constructor({ sets, boundAddresses, interfaceAddresses, excluded }: OwnershipEvidence) {
    this.#excluded = excluded;
    this.#addresses = new Set(boundAddresses);
    this.#nodePortAddresses = new Set(interfaceAddresses);
    for (const { name, entries } of sets) {
      if (NODE_PORT_ADDRESS_SETS.includes(name)) this.#takeMarks(entries);
      else if (NAMING_SETS.has(name)) this.#takeEntries(entries, NAMING_SETS.get(name)?.protocol);
    }
  }

  /** @param wanted whether a Service needs the address of the virtual server */
  owns(id: VirtualServerId, wanted = false): boolean {
    if (this.#excluded.some((cidr) => cidrContains(cidr, id.address))) return false;
    return (
      wanted ||
      this.#addresses.has(id.address) ||
      this.#named.has(virtualServerKey(id)) ||
      (this.#nodePortAddresses.has(id.address) && this.#nodePorts.has(`${id.protocol} ${id.port}`))
    );
  }

  #takeMarks(entries: readonly IpSetEntry[]): void {
    for (const entry of entries) if (entry.type === 'hash:ip') this.#nodePortAddresses.add(entry.address);
  }

  #takeEntries(entries: readonly IpSetEntry[], protocol: string | undefined): void {
    for (const entry of entries) {
      if (entry.type === 'bitmap:port') this.#nodePorts.add(`${protocol} ${entry.port}`);
      else if (entry.type === 'hash:ip,port') this.#named.add(virtualServerKey(entry));
    }
  }
}

/** The sets that identify virtual servers. An entry is written before its virtual server and deleted after it. */
const NAMING_SETS: ReadonlyMap<string, ReturnType<typeof setKind>> = new Map(
  SET_ROLES.filter((role) => setKind(role).of !== undefined).flatMap((role) =>
    IP_FAMILIES.map((family) => [setName(role, family), setKind(role)] as const),
  ),
);

export interface OwnershipParts {
  readonly kernel: Pick<Kernel, 'mode'>;
  readonly desired: { readonly plan: Pick<NodePlan, 'wantsAddress'> };
  readonly excluded: readonly Cidr[];
  /** Virtual servers that are ours even without evidence. */
  readonly written: ReadonlySet<VirtualServerKey>;
}

/**
 * Returns a test whether a virtual server is ours. One at a planned address is, even if another program unbound that address
 * from kube-ipvs0.
 */
export function ownershipIn(
  { kernel, desired: { plan }, excluded, written }: OwnershipParts,
  evidence: Omit<OwnershipEvidence, 'excluded'>,
): (id: VirtualServerId) => boolean {
  if (MODES[kernel.mode].ownsAll) return () => true;
  const ownership = new Ownership({ ...evidence, excluded });
  return (id) => ownership.owns(id, plan.wantsAddress(id.address) || written.has(virtualServerKey(id)));
}
