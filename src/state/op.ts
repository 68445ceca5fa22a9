import { type Cidr, formatCidr } from '../net/cidr.ts';
import { type IpAddress, formatIp } from '../net/ip.ts';
import type { IpSet, IpSetEntry } from './ip-set.ts';
import { formatIpSetEntry } from './ip-set.ts';
import { type RealServer, formatRealServer } from './real-server.ts';
import { type VirtualServer, type VirtualServerId, formatVirtualServer } from './virtual-server.ts';

/**
 * One change to one kernel object. Every operation is idempotent in effect: adding what is there or deleting what is gone
 * counts as done, so a transaction that was cut short can simply be planned and applied again.
 */
export type Op =
  | { readonly kind: 'create-set'; readonly set: IpSet }
  /** Makes a larger twin, copies the entries, swaps the two atomically and destroys the old one. */
  | { readonly kind: 'grow-set'; readonly set: IpSet; readonly entries: readonly IpSetEntry[] }
  | { readonly kind: 'destroy-set'; readonly set: IpSet }
  | { readonly kind: 'add-entry'; readonly set: IpSet; readonly entry: IpSetEntry }
  | { readonly kind: 'delete-entry'; readonly set: IpSet; readonly entry: IpSetEntry }
  | { readonly kind: 'add-virtual-server'; readonly virtualServer: VirtualServer }
  | { readonly kind: 'edit-virtual-server'; readonly virtualServer: VirtualServer }
  /** The kernel drops its real servers with it. */
  | { readonly kind: 'delete-virtual-server'; readonly id: VirtualServerId }
  | { readonly kind: 'add-real-server'; readonly id: VirtualServerId; readonly realServer: RealServer }
  | { readonly kind: 'edit-real-server'; readonly id: VirtualServerId; readonly realServer: RealServer }
  | { readonly kind: 'delete-real-server'; readonly id: VirtualServerId; readonly realServer: RealServer }
  | { readonly kind: 'bind-address'; readonly address: IpAddress }
  | { readonly kind: 'unbind-address'; readonly address: IpAddress }
  /** A local route of the loopback interface: every address of the network is this node's. */
  | { readonly kind: 'add-route'; readonly cidr: Cidr }
  | { readonly kind: 'delete-route'; readonly cidr: Cidr };

export type OpKind = Op['kind'];

/** The operation in words, for logs, dry runs and tests: one line, no trailing newline. */
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
      return `${op.kind} ${formatVirtualServer(op.id)} -> ${formatRealServer(op.realServer)} weight=${op.realServer.weight}`;
    case 'bind-address':
    case 'unbind-address':
      return `${op.kind} ${formatIp(op.address)}`;
    case 'add-route':
    case 'delete-route':
      return `${op.kind} ${formatCidr(op.cidr)}`;
  }
}
