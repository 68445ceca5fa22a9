import { diffAddresses } from '../diff/address-diff.ts';
import type { DrainLedger } from '../diff/drain.ts';
import { type WrongSet, diffIpSet } from '../diff/ip-set-diff.ts';
import { diffRoutes } from '../diff/route-diff.ts';
import { type WantedVirtualServer, diffVirtualServer, isInForce } from '../diff/virtual-server-diff.ts';
import type { Kernel, ObservedIpSet } from '../kernel/kernel.ts';
import type { Breather } from '../net/breather.ts';
import type { Cidr } from '../net/cidr.ts';
import type { IpAddress } from '../net/ip.ts';
import { planLocalRoutes } from '../plan/local-routes.ts';
import { type NodePlan, type SetKey, setKey } from '../plan/node-plan.ts';
import type { PlanConfig } from '../plan/plan-config.ts';
import { SET_ROLES, type SetRole, plannedSet } from '../plan/set-names.ts';
import { ipSetEntryKey } from '../state/ip-set.ts';
import type { Op } from '../state/op.ts';
import {
  type VirtualServer,
  type VirtualServerId,
  type VirtualServerKey,
  virtualServerKey,
} from '../state/virtual-server.ts';
import type { Clock } from './clock.ts';
import type { DrainingVirtualServer } from './draining.ts';
import { Ownership } from './ownership.ts';
import { readRealServers, readVirtualServers } from './read-virtual-servers.ts';

export interface FullCheckOptions {
  readonly kernel: Kernel;
  readonly plan: NodePlan;
  readonly config: PlanConfig;
  /** Virtual servers at these addresses are nobody's business of ours. */
  readonly excluded: readonly Cidr[];
  readonly ledger: DrainLedger;
  readonly clock: Clock;
  readonly breather: Breather;
  /** Waits for a long look at the kernel; what is more urgent may be done meanwhile, plan and kernel changed by it. */
  readonly beside: <T>(look: Promise<T>) => Promise<T>;
  /** The check at start: its pieces are applied all at once when the last one is there, and nothing is synced before that. */
  readonly first: boolean;
}

/** Part of what a full check has found. No operations: nothing to mend so far. */
export interface CheckPiece {
  readonly ops: readonly Op[];
  /** Comes once, with the first piece. */
  readonly sets?: {
    readonly wrong: readonly WrongSet[];
    /** How many entries each set takes when the operations are done. */
    readonly sizes: Map<SetKey, number>;
  };
  /** Those that were looked at, and which of them drain. */
  readonly virtualServers?: {
    readonly ids: readonly VirtualServerId[];
    readonly draining: readonly DrainingVirtualServer[];
  };
}

/** Read and compared at once: what a change that comes meanwhile waits for, some milliseconds. */
const PIECE = 64;
/** At start nothing comes in between. */
const FIRST_PIECE = 4_096;

// Entries that keep clients out go into the sets last and leave them first (see inSafeOrder in change-sync.ts).
const ROLES_DENY_LAST: readonly SetRole[] = [
  ...SET_ROLES.filter((role) => role !== 'LOAD-BALANCER-FW'),
  'LOAD-BALANCER-FW',
];

/**
 * Looks at the whole kernel, piece by piece, for what is not as the plan has it: what a packet needs first comes first, what is left over
 * goes at the end. Between two pieces the caller applies what was found, and may change plan and kernel alike: what was read before then
 * is only a suspicion, and is looked at again before anything is written on its account.
 */
export async function* fullCheck(options: FullCheckOptions): AsyncGenerator<CheckPiece, void> {
  const { kernel, plan, config, excluded, breather, beside, first } = options;
  let sets = await beside(kernel.getSets());
  let { add, surplus: surplusEntries, ...found } = await beside(checkSets(options, sets));
  if (!first && add.length + surplusEntries.length > 0) {
    sets = await kernel.getSets();
    ({ add, surplus: surplusEntries, ...found } = await checkSets(options, sets));
  }
  yield { ops: add, sets: found };
  const addresses = await beside(kernel.getBoundAddresses());
  const listed = await beside(kernel.getVirtualServers());
  const ownership = new Ownership(sets, addresses, excluded);
  const surplus = listed.filter((id) => plan.virtualServer(virtualServerKey(id)) === undefined && ownership.owns(id));
  yield* checkVirtualServers(options, new Map(listed.map((found) => [virtualServerKey(found), found])));

  const ops: Op[] = await addressOps(options, addresses);
  for (const id of first ? surplus : (await kernel.findVirtualServers(surplus)).values()) {
    const { address, port, protocol } = id;
    const unwanted = plan.virtualServer(virtualServerKey(id)) === undefined;
    if (unwanted) ops.push({ kind: 'delete-virtual-server', id: { address, port, protocol } });
    if (breather.due) await breather.breathe();
  }
  for (const { role, op } of surplusEntries) {
    if (!plan.entries(role, op.set.family).has(ipSetEntryKey(op.entry))) ops.push(op);
  }
  const routes = planLocalRoutes(config);
  // Only the first check can find routes where none is wanted: no reason to read the table of routes each time.
  if (first || routes.length > 0) ops.push(...diffRoutes(routes, await kernel.getLocalRoutes()));
  yield { ops };
}

interface SurplusEntry {
  readonly role: SetRole;
  readonly op: Extract<Op, { kind: 'delete-entry' }>;
}

interface SetsFound {
  readonly add: readonly Op[];
  readonly surplus: readonly SurplusEntry[];
  readonly wrong: readonly WrongSet[];
  readonly sizes: Map<SetKey, number>;
}

async function checkSets({ plan, config, breather }: FullCheckOptions, have: ObservedIpSet[]): Promise<SetsFound> {
  const byName = new Map(have.map((set) => [set.name, set]));
  const add: Op[] = [];
  const surplus: SurplusEntry[] = [];
  const wrong: WrongSet[] = [];
  const sizes = new Map<SetKey, number>();
  for (const family of config.families) {
    for (const role of ROLES_DENY_LAST) {
      const planned = plan.entries(role, family);
      const set = plannedSet(role, family, planned.size);
      const observed = byName.get(set.name);
      const diff = await breather.finish(diffIpSet(set, planned, observed));
      if (diff.wrong !== undefined) wrong.push(diff.wrong);
      for (const op of diff.ops) {
        if (op.kind === 'delete-entry') surplus.push({ role, op });
        else add.push(op);
      }
      sizes.set(setKey(role, family), Math.max(set.maxEntries, observed?.maxEntries ?? 0));
      if (breather.due) await breather.breathe();
    }
  }
  // The last role was the deny: its deletions go to the front.
  return { add, surplus: surplus.toSorted((a, b) => denyFirst(a) - denyFirst(b)), wrong, sizes };
}

function denyFirst({ role }: SurplusEntry): number {
  return role === 'LOAD-BALANCER-FW' ? 0 : 1;
}

/** All that are wanted, a few in each piece: their real servers, the bulk of the kernel's state, are never in memory all at once. */
async function* checkVirtualServers(
  options: FullCheckOptions,
  listed: ReadonlyMap<VirtualServerKey, VirtualServer>,
): AsyncGenerator<CheckPiece, void> {
  const { plan, first } = options;
  const size = first ? FIRST_PIECE : PIECE;
  let piece: WantedVirtualServer[] = [];
  // Those that come between two pieces are seen at the end, those that go are not seen any more.
  for (const want of plan.virtualServers()) {
    piece.push(want);
    if (piece.length < size) continue;
    yield await checkPiece(options, piece, listed);
    piece = [];
  }
  yield await checkPiece(options, piece, listed);
}

async function checkPiece(
  { kernel, ledger, clock, breather, first }: FullCheckOptions,
  wanted: readonly WantedVirtualServer[],
  listed: ReadonlyMap<VirtualServerKey, VirtualServer>,
): Promise<CheckPiece> {
  const ops: Op[] = [];
  const draining: DrainingVirtualServer[] = [];
  if (breather.due) await breather.breathe();
  const present = wanted.flatMap(({ virtualServer }) => listed.get(virtualServerKey(virtualServer)) ?? []);
  let have = await readRealServers(kernel, present);
  let suspects = wanted;
  if (!first) {
    suspects = wanted.filter((want) => !isInForce(want, have.get(virtualServerKey(want.virtualServer))));
    // The list of virtual servers was read a while ago.
    have = await readVirtualServers(
      kernel,
      suspects.map(({ virtualServer }) => virtualServer),
    );
  }
  const now = clock.now();
  for (const want of suspects) {
    const { virtualServer: id } = want;
    const servers = diffVirtualServer(id, want, have.get(virtualServerKey(id)), ledger, now, ops);
    if (servers > 0) draining.push({ id, servers });
    if (breather.due) await breather.breathe();
  }
  return { ops, virtualServers: { ids: wanted.map(({ virtualServer }) => virtualServer), draining } };
}

async function addressOps(
  { kernel, plan, breather, first }: FullCheckOptions,
  seen: readonly IpAddress[],
): Promise<Op[]> {
  const suspected = await breather.finish(diffAddresses(plan.addresses(), seen));
  if (first || suspected.length === 0) return [...suspected];
  return [...(await breather.finish(diffAddresses(plan.addresses(), await kernel.getBoundAddresses())))];
}
