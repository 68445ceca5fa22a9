import { constants } from 'node:os';
import { type IpFamily } from '../../base/ip.ts';
import type { IpSet } from '../../state/ip-set.ts';
import { type Op, familyOfOp } from '../../state/op.ts';
import type { OpFailure } from '../../state/outcome.ts';
import {
  type VirtualServer,
  type VirtualServerId,
  type VirtualServerKey,
  virtualServerKey,
} from '../../state/virtual-server.ts';
import type { ServiceOp } from '../service-ops.ts';
import { EqualChanges } from './equal-changes.ts';
import { type ProxyState, type Server, type ServicePortKey, nameOf, servicePortKey } from './proxy-state.ts';
import type { Lack, SomeServices } from './extensions.ts';
import { SETS, isOfNode } from './node-sets.ts';

export type EntryOp = Extract<Op, { readonly kind: 'add-entry' | 'delete-entry' }>;

/** An operation that this mode has, or whose object it has. */
export type StateOp = ServiceOp | EntryOp;

export interface Sorted {
  readonly possible: readonly StateOp[];
  readonly failures: readonly OpFailure[];
}

/** Sorts out the operations of one family that this mode does not have, those that need nothing, and what the kernel lacks. */
export function sortOps(ops: Iterable<Op>, family: IpFamily, lacks: readonly Lack[] = []): Sorted {
  const possible: StateOp[] = [];
  const failures: OpFailure[] = [];
  const lacking = new Map<VirtualServerKey, Lack>();
  const { EOPNOTSUPP } = constants.errno;
  const refuse = (op: Op): void => {
    failures.push({ op, errno: EOPNOTSUPP, code: 'EOPNOTSUPP', text: 'iptables mode has no such object' });
  };
  for (const op of ops) {
    if (familyOfOp(op) !== family) continue;
    switch (op.kind) {
      case 'add-virtual-server':
      case 'edit-virtual-server': {
        const lack = lacks.find(({ services }) => NEEDS[services](op.virtualServer));
        if (lack !== undefined && op.kind === 'add-virtual-server')
          lacking.set(virtualServerKey(op.virtualServer), lack);
        if (lack === undefined) possible.push(op);
        else failures.push(unsupported(op, lack));
        break;
      }
      case 'add-real-server': {
        const lack = lacking.size === 0 ? undefined : lacking.get(virtualServerKey(op.id));
        if (lack === undefined) possible.push(op);
        else failures.push(unsupported(op, lack));
        break;
      }
      case 'delete-virtual-server':
      case 'edit-real-server':
      case 'delete-real-server':
        possible.push(op);
        break;
      case 'add-entry':
      case 'delete-entry':
        if (isKnown(op.set) && isOfNode(op.set.name)) possible.push(op);
        else refuse(op);
        break;
      // Sets always exist, and have no limit.
      case 'create-set':
        if (!isKnown(op.set)) refuse(op);
        break;
      case 'grow-set':
      case 'destroy-set':
      case 'bind-address':
      case 'unbind-address':
      case 'add-route':
      case 'delete-route':
        refuse(op);
    }
  }
  return { possible, failures };
}

function unsupported(op: Op, { text }: Lack): OpFailure {
  return { op, errno: 0, code: 'UNSUPPORTED', text };
}

const NEEDS: Readonly<Record<SomeServices, (server: VirtualServer) => boolean>> = {
  'Services with session affinity': ({ timeout }) => timeout > 0,
  'Services with SCTP ports': ({ protocol }) => protocol === 'SCTP',
};

function isKnown({ name, type, family }: IpSet): boolean {
  return SETS[family].get(name)?.type === type;
}

function idOf(op: ServiceOp): VirtualServerId {
  const { address, port, protocol } = idIn(op);
  return { address, port, protocol };
}

/** Operations on the real servers of a virtual server usually share this object. */
function idIn(op: ServiceOp): VirtualServerId {
  return 'virtualServer' in op ? op.virtualServer : op.id;
}

/** Returns the service ports whose rules these operations may change. `state` must not have the changes yet. */
export function touchedPorts(state: ProxyState, ops: readonly StateOp[]): ReadonlySet<ServicePortKey> {
  const touched = new Set<ServicePortKey>();
  const addresses = state.nodePortAddresses();
  const touch = (server: Server | undefined): void => {
    if (server !== undefined) touched.add(servicePortKey(server.name, server.id.protocol));
  };
  let last: VirtualServerId | undefined;
  for (const op of ops) {
    if (isEntryOp(op)) {
      // The rule of a node port is for all addresses of the node.
      if (op.entry.type !== 'hash:ip') continue;
      for (const server of state.servers()) if (server.traits?.kind === 'nodePort') touch(server);
      continue;
    }
    if ('virtualServer' in op) touched.add(servicePortKey(nameOf(op.virtualServer), op.virtualServer.protocol));
    if (idIn(op) === last) continue;
    last = idIn(op);
    const id = idOf(op);
    touch(state.server(id));
    // The rule of a node port is for all addresses without another service there.
    if (addresses.includes(id.address)) for (const address of addresses) touch(state.server({ ...id, address }));
  }
  return touched;
}

export function isEntryOp(op: StateOp): op is EntryOp {
  return 'entry' in op;
}

export interface AppliedChange {
  readonly failures: readonly OpFailure[];
  readonly undo: () => void;
}

/** Applies operations to the state. A failed operation does not stop the others. */
export function applyToState(state: ProxyState, ops: readonly StateOp[]): AppliedChange {
  const undo: (() => void)[] = [];
  const failures: OpFailure[] = [];
  for (const { set, entry, kind } of ops.filter(isEntryOp)) {
    const before = state.hasEntry(set.name, entry);
    state.setEntry(set.name, entry, kind === 'add-entry');
    undo.push(() => state.setEntry(set.name, entry, before));
  }
  const changes = new EqualChanges();
  for (const group of byVirtualServer(ops).values()) {
    const changed = changeServer(state, group, changes);
    for (const failure of changed.failures) failures.push(failure);
    undo.push(changed.undo);
  }
  return { failures, undo: () => undo.reverse().forEach((step) => step()) };
}

function byVirtualServer(ops: readonly StateOp[]): ReadonlyMap<VirtualServerKey, readonly ServiceOp[]> {
  let last: VirtualServerId | undefined;
  let key: VirtualServerKey | undefined;
  return Map.groupBy(
    ops.filter((op) => !isEntryOp(op)),
    (op) => {
      const id = idIn(op);
      if (id !== last || key === undefined) [last, key] = [id, virtualServerKey(id)];
      return key;
    },
  );
}

/** Applies the operations of one virtual server together: a service may have thousands of endpoints. */
function changeServer(state: ProxyState, ops: readonly ServiceOp[], changes: EqualChanges): AppliedChange {
  const [first] = ops;
  if (first === undefined) return { failures: [], undo: () => undefined };
  const id = idOf(first);
  const before = state.server(id);
  const lastOf = (isDone: (op: ServiceOp) => boolean): Pick<Server, 'name' | 'traits'> => {
    const op = ops.findLast((each) => 'virtualServer' in each && isDone(each));
    if (op === undefined || !('virtualServer' in op)) return before ?? { name: '' };
    return { name: nameOf(op.virtualServer), traits: op.virtualServer.traits };
  };
  const port = servicePortKey(lastOf(() => true).name, id.protocol);
  const { after, failures } = changes.apply(port, before?.state, ops, (changed) => state.shared(port, changed));
  const failed = new Set<Op>(failures.map(({ op }) => op));
  const { name, traits } = lastOf((op) => !failed.has(op));
  state.setServer(id, after === undefined ? undefined : { id, name, traits, state: after });
  return { failures, undo: () => state.setServer(id, before) };
}

/** What belongs together: the operations of a service port, or those of the node. */
export type Unit = readonly StateOp[];

export function unitsOf(state: ProxyState, ops: readonly StateOp[]): readonly Unit[] {
  const names = new Map<VirtualServerKey, string>();
  for (const op of ops) {
    if ('virtualServer' in op) names.set(virtualServerKey(op.virtualServer), nameOf(op.virtualServer));
  }
  const units = Map.groupBy(ops, (op) => {
    if (isEntryOp(op)) return 'node';
    const key = virtualServerKey(idIn(op));
    const name = names.get(key) ?? state.server(idIn(op))?.name;
    return name === undefined ? String(key) : servicePortKey(name, idIn(op).protocol);
  });
  return [...units.values()];
}

/** The lines for a new endpoint: its chain, its two rules, and the rule that leads there. */
const LINES_OF_ENDPOINT = 4;

/**
 * Estimates the lines that write a unit. The addresses of a service port usually share their chains, so the address with the
 * most endpoints counts.
 */
export function linesOf(unit: Unit, state: ProxyState): number {
  const ofServers = new Map<VirtualServerKey, number>();
  let others = 0;
  for (const op of unit) {
    if (isEntryOp(op)) {
      others += 1;
      continue;
    }
    const id = idIn(op);
    const key = virtualServerKey(id);
    const known = ofServers.get(key) ?? 1 + (state.server(id)?.state.endpoints.length ?? 0);
    ofServers.set(key, known + (op.kind === 'add-real-server' ? LINES_OF_ENDPOINT : 1));
  }
  let most = 0;
  for (const lines of ofServers.values()) most = Math.max(most, lines);
  return most + ofServers.size + others;
}
