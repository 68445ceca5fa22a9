import { constants } from 'node:os';
import { familyOf, type IpFamily } from '../../base/ip.ts';
import type { IpSet, IpSetEntry } from '../../state/ip-set.ts';
import type { Op } from '../../state/op.ts';
import type { OpFailure } from '../../state/outcome.ts';
import type { Transaction } from '../../state/transaction.ts';
import { type VirtualServerId, type VirtualServerKey, virtualServerKey } from '../../state/virtual-server.ts';
import { entryKey } from './keys.ts';
import type { ServiceOp } from '../service-ops.ts';
import { ROLE_SETS, firewallSets } from './sets.ts';
import { bytesText } from './table-change.ts';

/** The wanted presence of an element, and the last operation on it. */
export interface EntryUnit {
  readonly kind: 'entry';
  readonly set: string;
  readonly key: Uint8Array;
  readonly entry: IpSetEntry;
  readonly present: boolean;
  readonly ops: readonly Op[];
}

/** The operations on one virtual server. */
export interface ServiceUnit {
  readonly kind: 'service';
  readonly id: VirtualServerId;
  readonly ops: readonly ServiceOp[];
}

/** The source ranges of one port of a load balancer IP. */
export interface FirewallUnit {
  readonly kind: 'firewall';
  readonly id: VirtualServerId;
  readonly entries: readonly EntryUnit[];
  readonly ops: readonly Op[];
}

/** A part of a transaction that does not depend on the others. */
export type Unit = EntryUnit | ServiceUnit | FirewallUnit;

export interface Units {
  readonly units: readonly Unit[];
  /** Operations that this mode does not have. */
  readonly failures: readonly OpFailure[];
}

/** Divides the operations of one family into independent parts. Operations that need nothing to be written are left out. */
export function unitsOf(tx: Transaction, family: IpFamily): Units {
  const collector = new UnitCollector(family);
  for (const op of tx) collector.take(op);
  return collector.finish();
}

type EntryOp = Extract<Op, { readonly kind: 'add-entry' | 'delete-entry' }>;

class UnitCollector {
  readonly #family: IpFamily;
  readonly #services = new Map<VirtualServerKey, { id: VirtualServerId; ops: ServiceOp[] }>();
  readonly #entries = new Map<string, EntryUnit>();
  readonly #failures: OpFailure[] = [];

  constructor(family: IpFamily) {
    this.#family = family;
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
        this.#entry(op, op.set, op.entry, op.kind === 'add-entry');
        break;
      case 'grow-set':
        for (const entry of op.entries) this.#entry(op, op.set, entry, true);
        break;
      // The sets that this mode has are part of the table, and it binds no addresses.
      case 'create-set':
        if (op.set.family === this.#family) this.#known(op, op.set);
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
    const units: Unit[] = [];
    const firewalls = new Map<VirtualServerKey, EntryUnit[]>();
    const { ports, ranges } = firewallSets(this.#family);
    for (const unit of this.#entries.values()) {
      const { entry, set } = unit;
      const isFirewall = set === ports.definition.name || set === ranges.definition.name;
      if (!isFirewall || entry.type === 'hash:ip' || entry.type === 'bitmap:port') {
        units.push(unit);
        continue;
      }
      const key = virtualServerKey(entry);
      firewalls.set(key, [...(firewalls.get(key) ?? []), unit]);
    }
    for (const entries of firewalls.values()) {
      const first = entries[0]?.entry;
      if (first === undefined || !('protocol' in first)) continue;
      const { address, protocol, port } = first;
      const ops = entries.flatMap((entry) => entry.ops);
      units.push({ kind: 'firewall', id: { address, protocol, port }, entries, ops });
    }
    for (const { id, ops } of this.#services.values()) {
      const { address, protocol, port } = id;
      units.push({ kind: 'service', id: { address, protocol, port }, ops });
    }
    return { units, failures: this.#failures };
  }

  #service(id: VirtualServerId, op: ServiceOp): void {
    if (familyOf(id.address) !== this.#family) return;
    const key = virtualServerKey(id);
    const known = this.#services.get(key);
    if (known === undefined) this.#services.set(key, { id, ops: [op] });
    else known.ops.push(op);
  }

  #entry(op: EntryOp | Extract<Op, { kind: 'grow-set' }>, set: IpSet, entry: IpSetEntry, present: boolean): void {
    if (set.family !== this.#family || !this.#known(op, set)) return;
    const name = ROLE_SETS[this.#family].get(set.name)?.definition.name ?? '';
    const key = entryKey(entry);
    const id = `${name} ${bytesText(key)}`;
    const before = this.#entries.get(id)?.ops ?? [];
    this.#entries.set(id, { kind: 'entry', set: name, key, entry, present, ops: [...before, op] });
  }

  #known(op: Op, { name, type }: IpSet): boolean {
    const known = ROLE_SETS[this.#family].get(name)?.ipSet.type === type;
    if (!known) this.#refuse(op);
    return known;
  }

  /** An operation without a family is refused once. */
  #refuse(op: Op): void {
    const family = 'set' in op ? op.set.family : 'address' in op ? familyOf(op.address) : 4;
    if (family !== this.#family) return;
    const { EOPNOTSUPP } = constants.errno;
    this.#failures.push({ op, errno: EOPNOTSUPP, code: 'EOPNOTSUPP', text: 'nftables mode has no such object' });
  }
}
