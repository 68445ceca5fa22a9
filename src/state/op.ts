import { type Cidr, formatCidr } from '../base/cidr.ts';
import { MAX_NAMED, firstFew } from '../base/text/first-few.ts';
import { type IpAddress, type IpFamily, familyOf, formatIp } from '../base/ip.ts';
import type { IpSet, IpSetEntry } from './ip-set.ts';
import { formatIpSetEntry } from './ip-set.ts';
import { type RealServer, formatRealServer, serverSettingsText } from './real-server.ts';
import { type VirtualServer, type VirtualServerId, formatVirtualServer, virtualServerId } from './virtual-server.ts';

/**
 * A change to one kernel object. Operations are idempotent: adding an existing object or deleting a missing one
 * succeeds, so an interrupted transaction can be planned and applied again.
 */
export type Op =
  | { readonly kind: 'create-set'; readonly set: IpSet }
  /** Creates a larger set with these entries, swaps it atomically with the existing set and destroys the old one. */
  | { readonly kind: 'grow-set'; readonly set: IpSet; readonly entries: readonly IpSetEntry[] }
  | { readonly kind: 'destroy-set'; readonly set: IpSet }
  | { readonly kind: 'add-entry'; readonly set: IpSet; readonly entry: IpSetEntry }
  | { readonly kind: 'delete-entry'; readonly set: IpSet; readonly entry: IpSetEntry }
  | { readonly kind: 'add-virtual-server'; readonly virtualServer: VirtualServer }
  | { readonly kind: 'edit-virtual-server'; readonly virtualServer: VirtualServer }
  /** The kernel also deletes the real servers of the virtual server. */
  | { readonly kind: 'delete-virtual-server'; readonly id: VirtualServerId }
  | { readonly kind: 'add-real-server'; readonly id: VirtualServerId; readonly realServer: RealServer }
  | { readonly kind: 'edit-real-server'; readonly id: VirtualServerId; readonly realServer: RealServer }
  | { readonly kind: 'delete-real-server'; readonly id: VirtualServerId; readonly realServer: RealServer }
  /**
   * Adds the address, or sets the flags and lifetimes of an existing address. With `again`, the address is deleted first,
   * because only with a new address does the kernel add its route in table local.
   */
  | { readonly kind: 'bind-address'; readonly address: IpAddress; readonly again?: true }
  /** `prefix` is absent for a single address (/32 or /128). */
  | { readonly kind: 'unbind-address'; readonly address: IpAddress; readonly prefix?: number }
  /** Routes on the loopback interface (see LocalRoute). Those with and without a source are different routes. */
  | { readonly kind: 'add-route'; readonly cidr: Cidr; readonly source?: IpAddress }
  | { readonly kind: 'delete-route'; readonly cidr: Cidr; readonly source?: IpAddress };

export type OpKind = Op['kind'];

export function deletionOfServer(id: VirtualServerId): Op {
  return { kind: 'delete-virtual-server', id: virtualServerId(id) };
}

/** A change to a virtual server or its real servers. */
export type ServerOp = Extract<Op, { readonly virtualServer: VirtualServer } | { readonly id: VirtualServerId }>;

/** A change to an entry of a set. */
export type EntryOp = Extract<Op, { readonly kind: 'add-entry' | 'delete-entry' }>;

/** Returns the virtual server that the operation, or one on its real servers, changes. */
export function virtualServerOf(op: ServerOp): VirtualServerId;
export function virtualServerOf(op: Op): VirtualServerId | undefined;
export function virtualServerOf(op: Op): VirtualServerId | undefined {
  return 'virtualServer' in op ? op.virtualServer : 'id' in op ? op.id : undefined;
}

/** Returns the IP family of the object that the operation changes. */
export function familyOfOp(op: Op): IpFamily {
  if ('set' in op) return op.set.family;
  if ('cidr' in op) return familyOf(op.cidr.address);
  return familyOf(('virtualServer' in op ? op.virtualServer : 'id' in op ? op.id : op).address);
}

/** Returns a one-line description of the operation. */
export function formatOp(op: Op): string {
  switch (op.kind) {
    case 'create-set':
    case 'destroy-set':
      return `${op.kind} ${op.set.name} ${op.set.type}`;
    case 'grow-set':
      return `${op.kind} ${op.set.name} to ${op.set.maxEntries} entries`;
    case 'add-entry':
    case 'delete-entry':
      return `${op.kind} ${op.set.name} ${formatIpSetEntry(op.entry)}`;
    case 'add-virtual-server':
    case 'edit-virtual-server': {
      const { scheduler, flags, timeout } = op.virtualServer;
      return `${op.kind} ${formatVirtualServer(op.virtualServer)} ${scheduler} flags=${flags} timeout=${timeout}`;
    }
    case 'delete-virtual-server':
      return `${op.kind} ${formatVirtualServer(op.id)}`;
    case 'add-real-server':
    case 'edit-real-server':
    case 'delete-real-server':
      return `${op.kind} ${formatVirtualServer(op.id)} -> ${formatRealServer(op.realServer)} ${serverSettingsText(op.realServer)}`;
    case 'bind-address':
      return `${op.kind} ${formatIp(op.address)}${op.again === true ? ' again, for its local route' : ''}`;
    case 'unbind-address':
      return `${op.kind} ${formatIp(op.address)}${op.prefix === undefined ? '' : `/${op.prefix}`}`;
    case 'add-route':
    case 'delete-route':
      return `${op.kind} ${formatCidr(op.cidr)}${op.source === undefined ? '' : ` src ${formatIp(op.source)}`}`;
  }
}

/** Returns the number of operations of each kind, for example ["2 x delete-virtual-server"]. */
export function countsInWords(ops: readonly Op[]): string[] {
  const counts = new Map<OpKind, number>();
  for (const { kind } of ops) counts.set(kind, (counts.get(kind) ?? 0) + 1);
  return Array.from(counts, ([kind, count]) => `${count} x ${kind}`);
}

/** Returns the first ten operations as text, followed by the number of remaining ones of `total`. */
export function firstInWords(ops: readonly Op[], total = ops.length): string[] {
  return firstFew(ops.slice(0, MAX_NAMED).map(formatOp), total);
}
