import { constants } from 'node:os';
import { type IpFamily } from '../../base/ip.ts';
import type { Port } from '../../base/port.ts';
import type { IpSet, IpSetEntry } from '../../state/ip-set.ts';
import { type Op, familyOfOp } from '../../state/op.ts';
import type { OpFailure } from '../../state/outcome.ts';
import type { Transaction } from '../../state/transaction.ts';
import { type VirtualServerId, type VirtualServerKey, borrows, virtualServerKey } from '../../state/virtual-server.ts';
import type { ServiceOp } from '../service-ops.ts';
import { CLUSTER_IPS, ROLE_SETS, firewallSets } from './sets.ts';

/** An operation on entries of a set. */
export type EntryOp = Extract<Op, { readonly kind: 'add-entry' | 'delete-entry' | 'grow-set' }>;

/** Entries that do not depend on others. */
export interface EntryUnit {
  readonly kind: 'entry';
  /** The name of the set of nf_tables. */
  readonly set: string;
  readonly ops: readonly [EntryOp];
}

/** An entry of the ports of load balancer IPs with source ranges, or of the ranges. */
export interface FirewallEntry {
  readonly set: string;
  readonly entry: Exclude<IpSetEntry, { readonly type: 'hash:ip' | 'bitmap:port' }>;
  readonly present: boolean;
}

/**
 * The operations on one virtual server, and on the source ranges of its load balancer IP. The kernel takes both or none:
 * otherwise the virtual server could be open to everyone.
 */
export interface ServiceUnit {
  readonly kind: 'service';
  readonly id: VirtualServerId;
  readonly ops: readonly ServiceOp[];
  readonly firewall: readonly FirewallEntry[];
  readonly firewallOps: readonly EntryOp[];
}

/** A part of a transaction that does not depend on the others. */
export type Unit = EntryUnit | ServiceUnit;

export interface Units {
  /** What belongs to one address and port is in one group: its marks, its source ranges and its virtual server. */
  readonly groups: readonly (readonly Unit[])[];
  /** Operations that this mode does not have. */
  readonly failures: readonly OpFailure[];
}

/**
 * Divides the operations into independent parts of each family. Operations that need nothing to be written are left out.
 * If the parts need several transactions, each Service finds what marks its packets. Cluster IPs are added after Services:
 * packets to one are rejected as long as its Service is not there. Entries that are deleted without a Service come last.
 */
export function unitsOf(tx: Transaction): Readonly<Record<IpFamily, Units>> {
  const collectors = { 4: new UnitCollector(4), 6: new UnitCollector(6) };
  for (const op of tx) collectors[familyOfOp(op)].take(op);
  return { 4: collectors[4].finish(), 6: collectors[6].finish() };
}

export function opsOf(unit: Unit): readonly Op[] {
  return unit.kind === 'entry' ? unit.ops : [...unit.firewallOps, ...unit.ops];
}

/** Returns the entries of an operation. */
export function entriesOf(op: EntryOp): readonly IpSetEntry[] {
  return op.kind === 'grow-set' ? op.entries : [op.entry];
}

interface ServiceDraft extends ServiceUnit {
  readonly ops: ServiceOp[];
  readonly firewall: FirewallEntry[];
  readonly firewallOps: EntryOp[];
}

/** A virtual server, or a node port at all addresses. */
type GroupKey = VirtualServerKey | `port ${Port}`;

/** Where a group comes in the order of transactions. */
function placeOf(group: readonly Unit[]): 'marks' | 'services' | 'borrowers' | 'clusterIps' | 'deletions' {
  if (group.some(isBorrower)) return 'borrowers';
  if (group.some(({ kind }) => kind === 'service')) return 'services';
  const isAdded = group.some((unit) => unit.kind === 'entry' && unit.ops[0].kind !== 'delete-entry');
  if (!isAdded) return 'deletions';
  return group.some((unit) => unit.kind === 'entry' && unit.set === CLUSTER_IPS) ? 'clusterIps' : 'marks';
}

/** Whether it gives a virtual server the list of another one, which must exist. */
function isBorrower(unit: Unit): boolean {
  return (
    unit.kind === 'service' &&
    unit.ops.some((op) => 'virtualServer' in op && borrows(op.virtualServer, op.virtualServer))
  );
}

class UnitCollector {
  readonly #family: IpFamily;
  readonly #firewallSets: ReadonlySet<string>;
  readonly #services = new Map<VirtualServerKey, ServiceDraft>();
  /** `id` may be another object than the unit's. */
  #last: { readonly id: VirtualServerId; readonly ops: ServiceOp[] } | undefined;
  readonly #groups = new Map<GroupKey, Unit[]>();
  /** Entries that belong to no address and port. */
  readonly #others: EntryUnit[] = [];
  readonly #failures: OpFailure[] = [];

  constructor(family: IpFamily) {
    this.#family = family;
    const { ports, ranges } = firewallSets(family);
    this.#firewallSets = new Set([ports.definition.name, ranges.definition.name]);
  }

  take(op: Op): void {
    switch (op.kind) {
      case 'add-virtual-server':
      case 'edit-virtual-server':
        this.#service(op.virtualServer, op);
        break;
      case 'delete-virtual-server':
      case 'add-real-server':
      case 'edit-real-server':
      case 'delete-real-server':
        this.#service(op.id, op);
        break;
      case 'add-entry':
      case 'delete-entry':
      case 'grow-set':
        this.#takeEntries(op);
        break;
      // The sets that this mode has are part of the table, and it binds no addresses.
      case 'create-set':
        if (this.#nameOf(op.set) === undefined) this.#refuse(op);
        break;
      case 'destroy-set':
      case 'bind-address':
      case 'unbind-address':
      case 'add-route':
      case 'delete-route':
        this.#refuse(op);
    }
  }

  finish(): Units {
    const {
      marks = [],
      services = [],
      borrowers = [],
      clusterIps = [],
      deletions = [],
    } = Object.groupBy([...this.#groups.values(), ...this.#others.map((unit) => [unit])], placeOf);
    return { groups: [...marks, ...services, ...borrowers, ...clusterIps, ...deletions], failures: this.#failures };
  }

  #service(id: VirtualServerId, op: ServiceOp): void {
    // Most operations follow another one on the same virtual server.
    if (this.#last?.id !== id) this.#last = { id, ops: this.#unitOf(id).ops };
    this.#last.ops.push(op);
  }

  #unitOf(id: VirtualServerId): ServiceDraft {
    const key = virtualServerKey(id);
    let unit = this.#services.get(key);
    if (unit === undefined) {
      this.#services.set(key, (unit = { kind: 'service', id, ops: [], firewall: [], firewallOps: [] }));
      const port = `port ${id.port}` as const;
      // A transaction adds the entries of node ports first.
      this.#group(this.#groups.has(port) ? port : key).push(unit);
    }
    return unit;
  }

  #group(key: GroupKey): Unit[] {
    let group = this.#groups.get(key);
    if (group === undefined) this.#groups.set(key, (group = []));
    return group;
  }

  #takeEntries(op: EntryOp): void {
    const set = this.#nameOf(op.set);
    if (set === undefined) this.#refuse(op);
    else if (this.#firewallSets.has(set)) for (const entry of entriesOf(op)) this.#firewall(op, set, entry);
    else this.#entry({ kind: 'entry', set, ops: [op] });
  }

  #entry(unit: EntryUnit): void {
    const [op] = unit.ops;
    if (op.kind === 'grow-set' || op.entry.type === 'hash:ip') this.#others.push(unit);
    else if (op.entry.type === 'bitmap:port') this.#group(`port ${op.entry.port}`).push(unit);
    else this.#group(virtualServerKey(op.entry)).push(unit);
  }

  #firewall(op: EntryOp, set: string, entry: IpSetEntry): void {
    if (entry.type === 'hash:ip' || entry.type === 'bitmap:port') return;
    const { address, protocol, port } = entry;
    const unit = this.#unitOf({ address, protocol, port });
    unit.firewall.push({ set, entry, present: op.kind !== 'delete-entry' });
    unit.firewallOps.push(op);
  }

  /** Returns the name of the set of nf_tables that stands for an ipset; undefined if there is none of this type. */
  #nameOf({ name, type }: IpSet): string | undefined {
    const role = ROLE_SETS[this.#family].get(name);
    return role?.ipSet.type === type ? role.definition.name : undefined;
  }

  #refuse(op: Op): void {
    const { EOPNOTSUPP } = constants.errno;
    this.#failures.push({ op, errno: EOPNOTSUPP, code: 'EOPNOTSUPP', text: 'nftables mode has no such object' });
  }
}
