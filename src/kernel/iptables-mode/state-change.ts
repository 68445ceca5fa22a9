import { constants } from 'node:os';
import { type IpFamily } from '../../base/ip.ts';
import type { Protocol } from '../../base/protocol.ts';
import { type IpSet, type IpSetEntry, ipSetName } from '../../state/ip-set.ts';
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
import { NODE, UnitOwners } from './unit-owners.ts';
import {
  NODE_PORT_ROLES,
  type ProxyState,
  type ServicePortKey,
  nameOf,
  nodePortEntry,
  servicePortKey,
} from './proxy-state.ts';
import type { Lack, SomeServices } from './extensions.ts';
import { SETS, isOmitted } from './roles.ts';
import type { SharedRule } from './service-port.ts';
import { healthCheckRule, nodePortAddressRule } from './base-chains.ts';

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
        if (isKnown(op.set)) possible.push(op);
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
  return SETS[family].get(name)?.type === type && !isOmitted(name);
}

function idOf(op: ServiceOp): VirtualServerId {
  const { address, port, protocol } = idIn(op);
  return { address, port, protocol };
}

/** Operations on the real servers of a virtual server usually share this object. */
function idIn(op: ServiceOp): VirtualServerId {
  return 'virtualServer' in op ? op.virtualServer : op.id;
}

/** The protocol of the ports in a set, whose entries do not have it. */
function protocolOfBitmap({ name, family }: IpSet): Protocol | undefined {
  for (const [protocol, roles] of Object.entries(NODE_PORT_ROLES) as [Protocol, (typeof NODE_PORT_ROLES)[Protocol]][]) {
    if (roles.some((role) => ipSetName(role, family) === name)) return protocol;
  }
  return undefined;
}

/** Returns the virtual servers whose rules an entry may change. */
export function idsOf({ set, entry }: EntryOp, state: ProxyState): readonly VirtualServerId[] {
  switch (entry.type) {
    case 'hash:ip,port':
    case 'hash:ip,port,net':
    case 'hash:ip,port,ip': {
      const { address, port, protocol } = entry;
      return [{ address, port, protocol }];
    }
    case 'bitmap:port': {
      const protocol = protocolOfBitmap(set);
      if (protocol === undefined) return [];
      return state.nodePortAddresses().map((address) => ({ address, port: entry.port, protocol }));
    }
    case 'hash:ip':
      return Array.from(state.servers()).flatMap(({ id }) => (hasNodePort(state, id) ? [id] : []));
  }
}

function hasNodePort(state: ProxyState, id: VirtualServerId): boolean {
  return state.hasEntry(ipSetName(NODE_PORT_ROLES[id.protocol][0], state.family), nodePortEntry(id));
}

/** Returns the service ports whose rules these operations may change. `state` must not have the changes yet. */
export function touchedPorts(state: ProxyState, ops: readonly StateOp[]): ReadonlySet<ServicePortKey> {
  const touched = new Set<ServicePortKey>();
  const addresses = state.nodePortAddresses();
  const touch = (id: VirtualServerId): void => {
    const server = state.server(id);
    if (server !== undefined) touched.add(servicePortKey(server.name, id.protocol));
  };
  let last: VirtualServerId | undefined;
  for (const op of ops) {
    if (!isEntryOp(op) && idIn(op) === last) continue;
    last = isEntryOp(op) ? undefined : idIn(op);
    const ids = isEntryOp(op) ? idsOf(op, state) : [idOf(op)];
    for (const id of ids) {
      touch(id);
      // The rule of a node port is for all addresses without another service there.
      if (addresses.includes(id.address)) for (const address of addresses) touch({ ...id, address });
    }
    if ('virtualServer' in op) touched.add(servicePortKey(nameOf(op.virtualServer), op.virtualServer.protocol));
  }
  return touched;
}

export function isEntryOp(op: StateOp): op is EntryOp {
  return 'entry' in op;
}

/** Returns the rules of entries that stand for themselves. */
export function entryRules(set: string, entry: IpSetEntry, family: IpFamily): readonly SharedRule[] {
  if (set === ipSetName('NODE-PORT-IP', family) && entry.type === 'hash:ip')
    return [nodePortAddressRule(entry.address)];
  if (set === ipSetName('HEALTH-CHECK-NODE-PORT', family) && entry.type === 'bitmap:port') {
    return [healthCheckRule(entry.port)];
  }
  return [];
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
  const lastName = (isDone: (op: ServiceOp) => boolean): string => {
    const op = ops.findLast((each) => 'virtualServer' in each && isDone(each));
    return op !== undefined && 'virtualServer' in op ? nameOf(op.virtualServer) : (before?.name ?? '');
  };
  const port = servicePortKey(
    lastName(() => true),
    id.protocol,
  );
  const { after, failures } = changes.apply(port, before?.state, ops, (changed) => state.shared(port, changed));
  const failed = new Set<Op>(failures.map(({ op }) => op));
  const name = lastName((op) => !failed.has(op));
  state.setServer(id, after === undefined ? undefined : { id, name, state: after });
  return { failures, undo: () => state.setServer(id, before) };
}

/** Divides operations into parts that belong together: those of a service port, and of the sets that name its addresses. */
export function unitsOf(state: ProxyState, ops: readonly StateOp[]): readonly (readonly StateOp[])[] {
  const owners = new UnitOwners(state, ops);
  const units = Map.groupBy(ops, (op) => {
    if (!isEntryOp(op)) return owners.ofServer(idOf(op));
    if (op.entry.type === 'hash:ip') return NODE;
    if (op.entry.type !== 'bitmap:port') return owners.ofServer(op.entry);
    const protocol = protocolOfBitmap(op.set);
    return protocol === undefined ? NODE : owners.ofNodePort(protocol, op.entry.port);
  });
  return [...units.values()];
}
