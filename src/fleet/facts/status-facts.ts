import { counted } from '../../base/text/counted.ts';
import type { KernelStatusReply, StatusReply } from '../../explain/replies.ts';
import type { Older } from '../older.ts';
import type { Facts } from './facts.ts';

/** What a status says of a node. */
export interface StatusFacts extends Facts {
  /** Seconds between its last successful sync and its answer, by its own clock; absent without a sync. */
  readonly syncAge?: number;
}

/** Reads the answer of a node. Throws if a field has another type than in this version. */
export function statusFacts(node: string, status: Older<StatusReply> | Older<KernelStatusReply>): StatusFacts {
  if (!isOfDaemon(status)) {
    const why = status.verdict ?? 'only the kernel was read';
    return { node, faults: [`no daemon answers: ${why}`], properties: new Map(), lists: new Map() };
  }
  const faults = faultsOf(status);
  const syncAge = syncAgeOf(status);
  return {
    node,
    faults: faults.length === 0 && status.ok !== true ? [status.verdict ?? 'not as wanted'] : faults,
    properties: propertiesOf(status),
    lists: new Map(),
    ...(syncAge === undefined ? {} : { syncAge }),
  };
}

function isOfDaemon(status: Older<StatusReply> | Older<KernelStatusReply>): status is Older<StatusReply> {
  return status.kind === 'Status';
}

function propertiesOf(status: Older<StatusReply>): ReadonlyMap<string, string> {
  const { version, commit, mode, families, iptables, scheduler, configuration, objects, conflicts, warnings } = status;
  const texts: readonly (readonly [string, string | number | undefined])[] = [
    ['version', version === undefined ? undefined : `${version}, commit ${commit?.slice(0, 12) ?? 'unknown'}`],
    ['mode', mode],
    ['families', families?.join(' and ')],
    ['iptables', iptables],
    ['scheduler', scheduler],
    ['configuration', configuration],
    ['Services', objects?.services],
    ['EndpointSlices', objects?.endpointSlices],
    ['conflicts', conflicts?.count],
    ['ignored parts of Services', warnings?.count],
  ];
  return new Map(texts.flatMap(([name, value]) => (value === undefined ? [] : [[name, String(value)] as const])));
}

function faultsOf(status: Older<StatusReply>): string[] {
  const { health, watches = {}, watchesSince = {}, syncs, refused, repairs, settings, notes, shadow } = status;
  const [firstRefused] = refused?.first ?? [];
  const [lastRepair] = repairs?.first ?? [];
  return [
    ...(health?.healthy === false ? [`not healthy: ${health.reason ?? 'no reason is given'}`] : []),
    ...(health?.problems ?? []),
    ...Object.entries(watches).flatMap(([resource, state]) =>
      state === 'watching' ? [] : [`watch of ${resource} ${state} since ${watchesSince[resource] ?? 'the start'}`],
    ),
    ...[syncs?.first, syncs?.change, syncs?.full].flatMap((sync) =>
      sync?.ok === false ? [`last sync failed: ${sync.error ?? 'no reason is given'}`] : [],
    ),
    ...(firstRefused === undefined
      ? []
      : [`${counted(refused?.count ?? 1, 'operation')} refused: ${firstRefused.command}: ${firstRefused.why}`]),
    ...(lastRepair === undefined
      ? []
      : [`drift: ${counted(repairs?.count ?? 1, 'repair')} within the last hour, such as ${lastRepair.command}`]),
    ...(settings?.[0] === undefined ? [] : [`${counted(settings.length, 'setting')} not as wanted: ${settings[0]}`]),
    ...(notes ?? []),
    ...((shadow?.unexpected ?? 0) > 0
      ? [`the shadow finds ${counted(shadow?.unexpected ?? 0, 'unexpected difference')}`]
      : []),
  ];
}

function syncAgeOf({ startedAt, uptimeSeconds, syncs }: Older<StatusReply>): number | undefined {
  if (startedAt === undefined || uptimeSeconds === undefined) return undefined;
  const now = Date.parse(startedAt) / 1000 + uptimeSeconds;
  const ended = [syncs?.first, syncs?.change, syncs?.full].flatMap((sync) =>
    sync?.ok === true && sync.endedAt !== undefined ? [Date.parse(sync.endedAt) / 1000] : [],
  );
  // The start and the uptime are rounded, so that a sync of this moment may have ended a second later.
  const age = Math.max(0, Math.round(now - Math.max(...ended)));
  return Number.isFinite(age) ? age : undefined;
}
