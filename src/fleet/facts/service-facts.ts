import type { AddressReply, PortReply, ServiceReply } from '../../explain/replies.ts';
import type { Older } from '../older.ts';
import type { Facts, ListItem } from './facts.ts';

/** What a node says of a Service. */
export interface ServiceFacts extends Facts {
  readonly ok: boolean;
  readonly verdict: string;
}

/** Reads the answer of a node. Throws if a field has another type than in this version. */
export function serviceFacts(node: string, reply: Older<ServiceReply>): ServiceFacts {
  const { settings, ports = [], sets = [], notes = [] } = reply;
  const properties: readonly (readonly [string, string | undefined])[] = [
    ['scheduler', settings?.scheduler && [settings.scheduler, ...(settings.flags ?? [])].join(' ')],
    ['internalTrafficPolicy', settings?.internalTrafficPolicy],
    ['externalTrafficPolicy', settings?.externalTrafficPolicy],
    ['session affinity', settings?.affinitySeconds === undefined ? undefined : `${settings.affinitySeconds} s`],
  ];
  return {
    node,
    ok: reply.ok === true,
    verdict: reply.verdict ?? '',
    faults: faultsOf(reply),
    properties: new Map(properties.flatMap(([name, value]) => (value === undefined ? [] : [[name, value] as const]))),
    lists: new Map<string, readonly ListItem[]>([
      [
        'addresses',
        ports.flatMap((port) => (port.addresses ?? []).map((address) => listed(addressText(address, port)))),
      ],
      ...ports.map((port) => [`endpoints of ${port.port}/${port.protocol}`, endpointItems(port)] as const),
      [
        'source ranges',
        sets
          .filter(({ does }) => does?.includes('source ranges'))
          .flatMap(({ set, first = [] }) => first.map((entry) => listed(`${set} ${entry}`))),
      ],
      ['notes', [...notes, ...ports.flatMap((port) => port.notes ?? [])].map(listed)],
    ]),
  };
}

/** How the kernel differs from the plan, and what was repaired. */
function faultsOf({
  ports = [],
  sets = [],
  nodeCommands = [],
  refused = [],
  repairs = [],
  healthChecks = [],
}: Older<ServiceReply>): string[] {
  const addresses = ports.flatMap((port) => port.addresses ?? []);
  const commands = [
    ...addresses.flatMap((address) => address.commands ?? []),
    ...sets.flatMap((set) => set.commands ?? []),
    ...nodeCommands,
  ];
  return [
    ...addresses.flatMap(({ at, owner }) => (owner === undefined ? [] : [`${at} belongs to ${owner}`])),
    ...healthChecks.flatMap(({ at, why }) => (why === undefined ? [] : [`health check ${at} does not answer: ${why}`])),
    ...refused.map(({ command, why }) => `refused: ${command}: ${why}`),
    ...commands.map((command) => `the kernel lacks: ${firstLine(command)}`),
    ...repairs.map(({ at, command = '' }) => `repaired ${at}: ${firstLine(command)}`),
  ];
}

/** A command may be a script. */
export function firstLine(text: string): string {
  const [first = '', ...more] = text.split('\n');
  return more.length === 0 ? first : `${first} ...`;
}

/** Node ports have the addresses of each node. */
function addressText({ use, at = '', clients }: Older<AddressReply>, { port, protocol }: Older<PortReply>): string {
  const place = use === 'NodePort' ? at.slice(at.lastIndexOf(':')) : at;
  return `${use} ${place} of ${port}/${protocol}${clients === undefined ? '' : `, ${clients}`}`;
}

const PARTLY: Readonly<Record<string, string>> = {
  internal: ' at the cluster IP only',
  external: ' at other addresses only',
};

/** An endpoint that only some clients reach is another item, and its whole use is what the node lacks. */
function endpointItems({ endpoints = [] }: Older<PortReply>): ListItem[] {
  return endpoints.flatMap(({ at = '', use = 'none', why }): ListItem[] => {
    const whole: ListItem = { item: at, listed: use === 'all', ...(why === undefined ? {} : { why }) };
    const part = PARTLY[use];
    return part === undefined ? [whole] : [whole, listed(`${at}${part}`)];
  });
}

function listed(item: string): ListItem {
  return { item, listed: true };
}
