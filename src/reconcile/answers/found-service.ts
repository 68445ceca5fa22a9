import { type IpFamily, familyOf } from '../../base/ip.ts';
import type { NamespacedName } from '../../base/service/names.ts';
import { MODES } from '../../base/proxy-mode.ts';
import { Yielder } from '../../base/yielder.ts';
import { bindingOf } from '../../diff/address-diff.ts';
import { ownersIn } from '../../explain/difference/op-owner.ts';
import type { RefusedOp } from '../../explain/refused-reply.ts';
import type { FoundService } from '../../explain/service-reply.ts';
import { type FoundEntry, MOST_ENTRIES } from '../../explain/service-sets.ts';
import { planRules } from '../../plan/ipvs/plan-rules.ts';
import type { PlannedEntry, PlannedVirtualServer, ServicePlan } from '../../plan/service-plan.ts';
import { plannedSet, setName } from '../../state/set-roles.ts';
import { type IpSetEntry, type IpSetEntryKey, formatIpSetEntry, ipSetEntryKey } from '../../state/ip-set.ts';
import { type Op, type ServerOp, virtualServerOf } from '../../state/op.ts';
import { type VirtualServerId, type VirtualServerKey, borrows, virtualServerKey } from '../../state/virtual-server.ts';
import { findServing } from '../compare/read-virtual-servers.ts';
import type { ComparisonParts } from '../compare/comparison.ts';
import { compareServers } from '../compare/server-comparison.ts';
import { type NodeParts, differingNode, forwardingNotes } from '../node/node-difference.ts';
import type { RetryQueue } from '../sync/retry-queue.ts';

/** Without `retries`, nothing can have been refused: a shadow writes nothing. */
export type ServiceParts = ComparisonParts & NodeParts & { readonly retries?: RetryQueue };

/** Conntrack is read only if it has at most this number of flows, because its dump takes long. */
const MOST_FLOWS = 65_536;

/** Reads what the kernel has of a Service. Reads again if it differs, because a sync may be writing it. */
export async function readFoundService(parts: ServiceParts, name: NamespacedName): Promise<FoundService> {
  const first = await readOnce(parts, name);
  const { ops, missing, ...found } = differs(first) ? await readOnce(parts, name) : first;
  const families = new Set(parts.desired.plan.service(name)?.virtualServers.map(familyOfServer));
  const commands = differs({ ops, missing }) ? await commandsOf(parts, families, [...ops, ...missing]) : [];
  return {
    ...found,
    commands: new Map(Array.from(ops.keys(), (key, at) => [key, commands[at] ?? []])),
    entryCommands: new Map(Array.from(missing.keys(), (set, at) => [set, commands[ops.size + at] ?? []])),
    ofNode: await differingNode(parts, families),
    nodeNotes: await forwardingNotes(parts.kernel, parts.desired.plan),
  };
}

function familyOfServer({ virtualServer }: PlannedVirtualServer): IpFamily {
  return familyOf(virtualServer.address);
}

interface Differing {
  /** The operations that bring each virtual server and its address to the plan. */
  readonly ops: ReadonlyMap<VirtualServerKey, readonly Op[]>;
  /** The operations that add the first missing entries of each set, by its name. */
  readonly missing: ReadonlyMap<string, readonly Op[]>;
}

function differs({ ops, missing }: Differing): boolean {
  return ops.size + missing.size > 0;
}

/** Returns the commands of each of these changes, made one after the other. */
async function commandsOf(
  { kernel, config }: ServiceParts,
  families: ReadonlySet<IpFamily>,
  changes: readonly (readonly [unknown, readonly Op[]])[],
): Promise<readonly (readonly string[])[]> {
  // The rules of ipvs mode do not depend on Services, and to compare them takes a program.
  const rules = MODES[kernel.mode].hasIpvs ? [] : Array.from(families, (family) => planRules(config, family));
  const { parts } = await kernel.preview(
    rules,
    changes.map(([, ops]) => ops),
  );
  return parts.map((some) => some.map(({ command }) => command));
}

type FoundOnce = Omit<FoundService, 'ofNode' | 'nodeNotes' | 'commands' | 'entryCommands'> & Differing;

async function readOnce(parts: ServiceParts, name: NamespacedName): Promise<FoundOnce> {
  const { kernel, desired } = parts;
  const { plan } = desired;
  const planned = plan.service(name);
  const own = (planned?.virtualServers ?? []).filter(
    ({ virtualServer }) => plan.ownerOf(virtualServerKey(virtualServer)) === name,
  );
  // A preview adds a list of endpoints before those that use it.
  const ids = own
    .map(({ virtualServer }) => virtualServer)
    .toSorted((a, b) => Number(borrows(a, a)) - Number(borrows(b, b)));
  const bound = new Map((await kernel.getBoundAddresses()).map((each) => [each.address, each]));
  const wanted = (planned?.addresses ?? []).filter((address) => plan.wantsAddress(address));
  const udpFlows = await readUdpFlows(parts, ids);
  const compared = Map.groupBy(await compareServers(parts, own, new Yielder()), keyOfServer);
  const bindings = new Map(wanted.map((address) => [address, bindingOf(address, bound.get(address))]));
  const entries = await readEntries(parts, planned);
  return {
    ops: new Map(
      ids.flatMap((id) => {
        const binding = bindings.get(id.address);
        const ops = [...(compared.get(virtualServerKey(id)) ?? []), ...(binding === undefined ? [] : [binding])];
        return ops.length === 0 ? [] : [[virtualServerKey(id), ops] as const];
      }),
    ),
    missing: additionsOf(entries.filter(({ inKernel }) => !inKernel)),
    realServers: await findServing(kernel, [...(await kernel.findVirtualServers(ids)).values()]),
    stats: await kernel.getVirtualServerStats(ids),
    realServerStats: await kernel.getRealServerStats(ids),
    entries,
    refused: refusedOps(parts, name, planned),
    ...(udpFlows === undefined ? {} : { udpFlows }),
  };
}

/** The entries that are planned and, unlike those of a lost claim, in force. */
async function readEntries({ kernel, desired }: ServiceParts, planned: ServicePlan | undefined): Promise<FoundEntry[]> {
  const wanted = (planned?.entries ?? []).filter(({ role, family, entry }) =>
    desired.plan.entries(role, family).has(ipSetEntryKey(entry)),
  );
  const groups = Map.groupBy(wanted, ({ role, family }) => setName(role, family));
  const absent = new Map(Array.from(groups, ([name, group]) => [name, new Set(group.map(keyOf))]));
  // A set may have the entries of thousands of Services.
  const yielder = new Yielder();
  for (const { name, entries } of await kernel.getSets([...absent.keys()])) {
    for (const entry of entries) {
      absent.get(name)?.delete(ipSetEntryKey(entry));
      if (yielder.due) await yielder.yieldIfDue();
    }
  }
  return wanted.map((each) => ({
    ...each,
    inKernel: absent.get(setName(each.role, each.family))?.has(keyOf(each)) !== true,
  }));
}

function additionsOf(missing: readonly FoundEntry[]): ReadonlyMap<string, readonly Op[]> {
  const groups = Map.groupBy(missing, ({ role, family }) => setName(role, family));
  return new Map(
    Array.from(groups, ([name, group]) => [
      name,
      group.slice(0, MOST_ENTRIES).map(({ role, family, entry }): Op => ({
        kind: 'add-entry',
        set: plannedSet(role, family, group.length),
        entry,
      })),
    ]),
  );
}

function keyOfServer(op: ServerOp): VirtualServerKey {
  return virtualServerKey(virtualServerOf(op));
}

function keyOf({ entry }: PlannedEntry): IpSetEntryKey {
  return ipSetEntryKey(entry);
}

/** Returns the operations for the Service that the kernel refuses, and that are tried again. */
function refusedOps(
  { desired: { plan }, retries }: ServiceParts,
  name: NamespacedName,
  planned: ServicePlan | undefined,
): RefusedOp[] {
  const ownerOf = ownersIn(plan);
  const entries = new Set(planned?.entries.map(({ role, family, entry }) => entryText(setName(role, family), entry)));
  if (retries === undefined) return [];
  return retries
    .failing()
    .filter(({ failure: { op } }) =>
      'entry' in op ? entries.has(entryText(op.set.name, op.entry)) : ownerOf(op) === name,
    );
}

function entryText(set: string, entry: IpSetEntry): string {
  return `${set} ${formatIpSetEntry(entry)}`;
}

/** Returns the number of flows to each virtual server of UDP; undefined if there is none, or conntrack is too large. */
async function readUdpFlows(
  { kernel }: ServiceParts,
  ids: readonly VirtualServerId[],
): Promise<Map<VirtualServerKey, number> | undefined> {
  const udp = ids.filter(({ protocol }) => protocol === 'UDP');
  if (udp.length === 0) return undefined;
  const all = await kernel.getSysctl('net/netfilter/nf_conntrack_count');
  if (all === undefined || Number(all) > MOST_FLOWS) return undefined;
  const counts = new Map<VirtualServerKey, number>(udp.map((id) => [virtualServerKey(id), 0]));
  for (const family of new Set(udp.map(({ address }) => familyOf(address)))) {
    for (const { destination, destinationPort, protocol } of await kernel.getUdpFlows(family)) {
      const key = virtualServerKey({ address: destination, port: destinationPort, protocol });
      const count = counts.get(key);
      if (count !== undefined) counts.set(key, count + 1);
    }
  }
  return counts;
}
