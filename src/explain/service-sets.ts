import { formatCidr } from '../base/cidr.ts';
import { type IpFamily, familyOf } from '../base/ip.ts';
import { MAX_NAMED, firstFew } from '../base/text/first-few.ts';
import type { PlanConfig } from '../plan/plan-config.ts';
import type { PlannedEntry } from '../plan/service-plan.ts';
import { SET_ROLES, type SetRole, plannedSet, setName } from '../state/set-roles.ts';
import type { LocalDetector } from '../state/rules/rule-settings.ts';
import type { VirtualServer } from '../state/virtual-server.ts';
import type { SetReply } from './replies.ts';
import type { Words } from './words.ts';

/** An entry of a set that a Service needs, and whether the kernel has it. */
export interface FoundEntry extends PlannedEntry {
  readonly inKernel: boolean;
}

/** The entries of sets that a Service needs. */
export interface FoundEntries {
  readonly entries: readonly FoundEntry[];
  /** The commands that add the first missing entries of each set, by the name of its ipset. */
  readonly entryCommands: ReadonlyMap<string, readonly string[]>;
}

export const MOST_ENTRIES = 20;

const ALL_MASQUERADED = 'all clients are masqueraded';
const MASQUERADED = `${ALL_MASQUERADED} (externalTrafficPolicy: Cluster)`;
const KEPT = 'clients keep their address (externalTrafficPolicy: Local)';
const KEPT_OR_DIRECT = 'clients keep their address (externalTrafficPolicy: Local, or forwarding without NAT)';
const ALLOWED = 'a client, or a network of clients, that the source ranges allow';

/** What an entry does. Clients of a cluster IP are treated as the settings of the daemon say. */
const EFFECTS: Readonly<Record<Exclude<SetRole, 'CLUSTER-IP'>, string>> = {
  'LOOP-BACK': 'an endpoint that is its own client is masqueraded',
  'EXTERNAL-IP': MASQUERADED,
  'EXTERNAL-IP-LOCAL': KEPT_OR_DIRECT,
  'LOAD-BALANCER': MASQUERADED,
  'LOAD-BALANCER-LOCAL': KEPT_OR_DIRECT,
  'LOAD-BALANCER-FW': 'clients outside of the source ranges are dropped',
  'LOAD-BALANCER-SOURCE-CIDR': ALLOWED,
  'LOAD-BALANCER-SOURCE-IP': ALLOWED,
  'NODE-PORT-TCP': MASQUERADED,
  'NODE-PORT-LOCAL-TCP': KEPT,
  'NODE-PORT-UDP': MASQUERADED,
  'NODE-PORT-LOCAL-UDP': KEPT,
  'NODE-PORT-SCTP-HASH': MASQUERADED,
  'NODE-PORT-LOCAL-SCTP-HASH': KEPT,
  'NODE-PORT-IP': 'the address serves node ports',
  'HEALTH-CHECK-NODE-PORT': 'health checks of load balancers are accepted',
  'IPVS-IPS': 'ports without a Service refuse connections',
};

/** Sets whose entries have no effect if another set has them too. */
const UNLESS: Readonly<Partial<Record<SetRole, SetRole>>> = {
  'LOAD-BALANCER': 'LOAD-BALANCER-LOCAL',
  'NODE-PORT-TCP': 'NODE-PORT-LOCAL-TCP',
  'NODE-PORT-UDP': 'NODE-PORT-LOCAL-UDP',
  'NODE-PORT-SCTP-HASH': 'NODE-PORT-LOCAL-SCTP-HASH',
};

/** Returns the entries by set, in the order of the sets. */
export function setsOf({ entries, entryCommands }: FoundEntries, config: PlanConfig, words: Words): SetReply[] {
  const order = entries.toSorted(
    (a, b) => a.family - b.family || SET_ROLES.indexOf(a.role) - SET_ROLES.indexOf(b.role),
  );
  const groups = Map.groupBy(order, ({ role, family }) => `${family} ${role}`);
  return Array.from(groups.values()).flatMap((group) => {
    const [first] = group;
    if (first === undefined) return [];
    const { role, family } = first;
    const set = plannedSet(role, family, group.length);
    return [
      {
        set: words.set(set),
        does: effectOf(role, family, config, words),
        count: group.length,
        first: group.slice(0, MOST_ENTRIES).map(({ entry }) => words.entry(entry)),
        commands: entryCommands.get(set.name) ?? [],
      },
    ];
  });
}

/** Says how clients are treated, in the modes whose virtual servers have the traits themselves. */
export function clientsOf({ address, traits }: VirtualServer, config: PlanConfig): string | undefined {
  if (traits === undefined) return undefined;
  const { kind, keepsSource, admitted } = traits;
  const kept = keepsSource ? KEPT : MASQUERADED;
  const effect = kind === 'cluster' ? clusterIpEffect(config, familyOf(address)) : kept;
  if (admitted === undefined) return effect;
  const ranges = firstFew(admitted.ranges.slice(0, MAX_NAMED).map(formatCidr), admitted.ranges.length).join(', ');
  return `${effect}; only clients in ${ranges === '' ? 'no range' : ranges} are admitted`;
}

function effectOf(role: SetRole, family: IpFamily, config: PlanConfig, words: Words): string {
  if (role === 'CLUSTER-IP') return clusterIpEffect(config, family);
  const other = UNLESS[role];
  return other === undefined
    ? EFFECTS[role]
    : `${EFFECTS[role]}, unless ${words.set({ name: setName(other, family), family })} has it too`;
}

function clusterIpEffect({ masqueradeAll, localDetectors }: PlanConfig, family: IpFamily): string {
  if (masqueradeAll) return `${ALL_MASQUERADED} (masqueradeAll)`;
  const detector = localDetectors[family];
  return detector === undefined
    ? 'clients keep their address (no --cluster-cidr or other way to tell Pods from others)'
    : `clients that are not Pods (--detect-local-mode) are masqueraded; Pods are ${podsText(detector)}`;
}

function podsText(detector: LocalDetector): string {
  switch (detector.kind) {
    case 'cidr':
      return `in ${formatCidr(detector.cidr)}`;
    case 'bridge':
      return `behind bridge ${detector.interfaceName}`;
    case 'interface-prefix':
      return `behind interfaces ${detector.prefix}*`;
  }
}
