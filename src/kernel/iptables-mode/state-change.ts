import type { IpFamily } from '../../base/ip.ts';
import { type EntryOp, type Op, type ServerOp, virtualServerOf } from '../../state/op.ts';
import type { OpFailure } from '../../state/outcome.ts';
import {
  type VirtualServer,
  type VirtualServerId,
  type VirtualServerKey,
  virtualServerKey,
} from '../../state/virtual-server.ts';
import { EqualChanges } from './equal-changes.ts';
import { type ProxyState, type Server, type ServicePortKey, nameOf, servicePortKey } from './proxy-state.ts';
import type { MissingExtension, DependentServices } from './extensions.ts';
import { NODE_SETS } from './node-sets.ts';
import { type ServerOps, byVirtualServer, sortOps } from '../translated-ops.ts';

/** An operation on an object that this mode has. */
export type StateOp = ServerOp | EntryOp;

export interface PossibleOps {
  readonly possible: readonly StateOp[];
  readonly failures: readonly OpFailure[];
}

/**
 * Sorts out the operations of one family that are possible in this mode. Operations that need what the kernel lacks,
 * or that the mode does not have, are failures.
 */
export function possibleOps(ops: Iterable<Op>, family: IpFamily, lacks: readonly MissingExtension[] = []): PossibleOps {
  const { services, entries, failures } = sortOps(ops, { mode: 'iptables', family, sets: NODE_SETS[family] });
  if (lacks.length === 0) return { possible: [...entries, ...services], failures };
  const possible: StateOp[] = [...entries];
  const unmet: OpFailure[] = [];
  const lacking = new Map<VirtualServerKey, MissingExtension>();
  for (const op of services) {
    const lack = 'virtualServer' in op ? lackOf(op.virtualServer, lacks) : lacking.get(virtualServerKey(op.id));
    if (op.kind === 'add-virtual-server' && lack !== undefined) lacking.set(virtualServerKey(op.virtualServer), lack);
    const isNeeding = 'virtualServer' in op || op.kind === 'add-real-server';
    if (lack === undefined || !isNeeding) possible.push(op);
    else unmet.push({ op, errno: 0, code: 'UNSUPPORTED', text: lack.text });
  }
  return { possible, failures: [...failures, ...unmet] };
}

function lackOf(server: VirtualServer, lacks: readonly MissingExtension[]): MissingExtension | undefined {
  return lacks.find(({ services }) => NEEDS[services](server));
}

const NEEDS: Readonly<Record<DependentServices, (server: VirtualServer) => boolean>> = {
  'Services with session affinity': ({ timeout }) => timeout > 0,
  'Services with SCTP ports': ({ protocol }) => protocol === 'SCTP',
};

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
    if (virtualServerOf(op) === last) continue;
    last = virtualServerOf(op);
    const { address: own, port, protocol } = last;
    touch(state.server(last));
    // The rule of a node port is for all addresses without another service there.
    if (addresses.includes(own)) for (const address of addresses) touch(state.server({ address, port, protocol }));
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
  for (const group of byVirtualServer(ops.filter((op) => !isEntryOp(op)))) {
    const changed = changeServer(state, group, changes);
    for (const failure of changed.failures) failures.push(failure);
    undo.push(changed.undo);
  }
  return { failures, undo: () => undo.reverse().forEach((step) => step()) };
}

/** Applies the operations of one virtual server together: a service may have thousands of endpoints. */
function changeServer(state: ProxyState, { id, ops }: ServerOps, changes: EqualChanges): AppliedChange {
  const before = state.server(id);
  const wanted = ops.findLast((op) => 'virtualServer' in op)?.virtualServer;
  const port = servicePortKey(wanted === undefined ? (before?.name ?? '') : nameOf(wanted), id.protocol);
  const { after, settings, failures } = changes.apply(port, before?.state, ops, (changed) =>
    state.shared(port, changed),
  );
  const named = settings === undefined ? before : { name: nameOf(settings), traits: settings.traits };
  state.setServer(id, after && { id, name: named?.name ?? '', traits: named?.traits, state: after });
  return { failures, undo: () => state.setServer(id, before) };
}

/** Operations that are written together: those of a service port, or those of the node. */
export type Unit = readonly StateOp[];

export function unitsOf(state: ProxyState, ops: readonly StateOp[]): readonly Unit[] {
  const names = new Map<VirtualServerKey, string>();
  for (const op of ops) {
    if ('virtualServer' in op) names.set(virtualServerKey(op.virtualServer), nameOf(op.virtualServer));
  }
  const units = Map.groupBy(ops, (op) => {
    if (isEntryOp(op)) return 'node';
    const key = virtualServerKey(virtualServerOf(op));
    const name = names.get(key) ?? state.server(virtualServerOf(op))?.name;
    return name === undefined ? String(key) : servicePortKey(name, virtualServerOf(op).protocol);
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
    const id = virtualServerOf(op);
    const key = virtualServerKey(id);
    const known = ofServers.get(key) ?? 1 + (state.server(id)?.state.endpoints.length ?? 0);
    ofServers.set(key, known + (op.kind === 'add-real-server' ? LINES_OF_ENDPOINT : 1));
  }
  let most = 0;
  for (const lines of ofServers.values()) most = Math.max(most, lines);
  return most + ofServers.size + others;
}
