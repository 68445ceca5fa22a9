import type { Flow, IpvsTimeouts } from '../../src/kernel/kernel.ts';
import { type IpAddress, type IpFamily, familyOf } from '../../src/base/ip.ts';
import type { PlanConfig } from '../../src/plan/plan-config.ts';
import { SET_ROLES, plannedSet } from '../../src/state/set-roles.ts';
import type { IpSet, IpSetEntry } from '../../src/state/ip-set.ts';
import type { Op } from '../../src/state/op.ts';
import { address, portOf, real, virtualServer } from '../support/state.ts';
import { NODE_SETTINGS } from './configs.ts';
import type { Wanted } from './winners.ts';

/** One change that another program makes to the kernel. */
export type Deed =
  | Op
  | { readonly kind: 'delete-device' }
  /** Holds it for a third of a second. */
  | { readonly kind: 'hold-lock-of-iptables' }
  | { readonly kind: 'add-flow'; readonly flow: Flow }
  /** Replaces a set with one of another type. Deletes all our rules first, because a set in use cannot be replaced. */
  | { readonly kind: 'retype-set'; readonly set: IpSet }
  | { readonly kind: 'set-device'; readonly to: 'up' | 'down' }
  /** Makes the address eligible as source of the node's own connections. */
  | { readonly kind: 'change-address'; readonly address: IpAddress }
  | { readonly kind: 'set-sysctl'; readonly key: string; readonly value: string }
  | { readonly kind: 'set-timeouts'; readonly timeouts: IpvsTimeouts }
  /** Deletes all virtual servers, then restores those of others. */
  | { readonly kind: 'clear-virtual-servers' }
  | { readonly kind: 'flush-set'; readonly name: string }
  /** Replaces a set with an empty one of the same name and type but a small maximum size. */
  | { readonly kind: 'shrink-set'; readonly set: IpSet }
  /** Deletes all our chains and jumps. */
  | { readonly kind: 'delete-rules'; readonly family: IpFamily }
  | { readonly kind: 'flush-chain'; readonly family: IpFamily; readonly table: string; readonly chain: string }
  /** Deletes the first rule of a nat chain in which others have none. */
  | { readonly kind: 'delete-jump'; readonly family: IpFamily; readonly chain: 'OUTPUT' | 'POSTROUTING' }
  /** Destroys all our sets, and first the rules that refer to them. */
  | { readonly kind: 'destroy-sets' }
  | { readonly kind: 'add-node-address'; readonly address: IpAddress }
  | { readonly kind: 'delete-node-address'; readonly address: IpAddress };

/** The state from which an act selects its target. */
export interface Scene {
  readonly wanted: Wanted;
  readonly config: PlanConfig;
}

type Act = (scene: Scene, pick: number) => readonly Deed[];

/** Addresses that are added to and deleted from an interface of the node. Services may claim them. */
export const NODE_ADDRESSES_THAT_COME = ['192.168.9.2', '203.0.113.1', 'fd00:9::2'].map(address);

/** A port that no Service uses; virtual servers and set entries of others do. */
export const OTHERS_PORT = 4444;

const CHAINS: readonly { readonly table: string; readonly chain: string }[] = [
  { table: 'nat', chain: 'KUBE-SERVICES' },
  { table: 'nat', chain: 'KUBE-POSTROUTING' },
  { table: 'filter', chain: 'KUBE-IPVS-FILTER' },
  { table: 'mangle', chain: 'KUBE-SOURCE-RANGES-FIREWALL' },
];

/** Hostile acts by name. `pick` selects the target among the wanted objects. */
export const ACTS: Readonly<Record<string, Act>> = {
  'unbind an address': ({ wanted }, pick) =>
    chosen(wanted.addresses, pick).map((one): Deed => ({ kind: 'unbind-address', address: one })),
  'bind an address that nobody wants': (_, pick) => [
    { kind: 'bind-address', address: address(pick % 2 === 0 ? `10.77.0.${pick % 200}` : `fd00:77::${pick % 200}`) },
  ],
  'delete a virtual server': ({ wanted }, pick) =>
    chosen(wanted.virtualServers, pick).map((one): Deed => ({ kind: 'delete-virtual-server', id: one.virtualServer })),
  'clear the virtual servers': () => [{ kind: 'clear-virtual-servers' }],
  'change a virtual server': ({ wanted }, pick) =>
    chosen(wanted.virtualServers, pick).map((one): Deed => {
      const { flags, timeout } = one.virtualServer;
      const persistence =
        pick % 3 === 0 ? { flags: flags ^ 1, timeout: (flags & 1) === 0 ? 77 : 0 } : { flags, timeout };
      const scheduler = pick % 2 === 0 ? 'sed' : one.virtualServer.scheduler;
      return { kind: 'edit-virtual-server', virtualServer: { ...one.virtualServer, ...persistence, scheduler } };
    }),
  'add a virtual server at an address of ours': ({ wanted }, pick) =>
    chosen(wanted.addresses, pick).flatMap((one): Deed[] => {
      const added = {
        ...virtualServer('10.0.0.1', OTHERS_PORT),
        address: one,
        prefix: typeof one === 'number' ? 32 : 128,
      };
      const server = real(typeof one === 'number' ? '10.66.0.1' : 'fd00:66::1', 5);
      return [
        { kind: 'add-virtual-server', virtualServer: added },
        { kind: 'add-real-server', id: added, realServer: server },
      ];
    }),
  'delete a real server': ({ wanted }, pick) =>
    chosen(realServers(wanted), pick).map((one): Deed => ({ kind: 'delete-real-server', ...one })),
  'change the weight of a real server': ({ wanted }, pick) =>
    chosen(realServers(wanted), pick).map(({ id, realServer }): Deed => {
      return {
        kind: 'edit-real-server',
        id,
        realServer: { ...realServer, weight: pick % 3 === 0 ? 0 : 2 + (pick % 9) },
      };
    }),
  'add a real server': ({ wanted }, pick) =>
    chosen(wanted.virtualServers, pick).map((one): Deed => {
      const id = one.virtualServer;
      const server = real(typeof id.address === 'number' ? '10.66.0.1' : 'fd00:66::1', pick % 3);
      return { kind: 'add-real-server', id, realServer: server };
    }),
  'delete a set entry': ({ wanted }, pick) =>
    chosen(wanted.entries, pick).map(({ role, family, entry }): Deed => {
      return { kind: 'delete-entry', set: plannedSet(role, family, 0), entry };
    }),
  'add a set entry': ({ config }, pick) => [addedEntry(config, pick)],
  'flush a set': ({ config }, pick) =>
    chosen(setsOf(config), pick).map(({ name }): Deed => ({ kind: 'flush-set', name })),
  'put a smaller set in the place of one': ({ config }, pick) =>
    chosen(
      setsOf(config).filter(({ type }) => type !== 'bitmap:port'),
      pick,
    ).map((set): Deed => ({ kind: 'shrink-set', set })),
  'put a set of another type in the place of one': ({ config }, pick) =>
    chosen(setsOf(config), pick).map((set): Deed => {
      return { kind: 'retype-set', set: { ...set, type: set.type === 'hash:ip' ? 'hash:ip,port' : 'hash:ip' } };
    }),
  'hold the lock of iptables': () => [{ kind: 'hold-lock-of-iptables' }],
  'a client sends over UDP': ({ wanted }, pick) =>
    chosen(
      realServers(wanted).filter(({ id }) => id.protocol === 'UDP'),
      pick,
    ).map((one): Deed => ({ kind: 'add-flow', flow: flowTo(one, pick) })),
  'delete all rules of a family': ({ config }, pick) =>
    chosen(config.families, pick).map((family): Deed => ({ kind: 'delete-rules', family })),
  'flush a chain': ({ config }, pick) =>
    chosen(CHAINS, pick).map((chain): Deed => ({ kind: 'flush-chain', family: familyOfPick(config, pick), ...chain })),
  'delete a jump': ({ config }, pick) => [
    { kind: 'delete-jump', family: familyOfPick(config, pick), chain: pick % 3 === 0 ? 'OUTPUT' : 'POSTROUTING' },
  ],
  'delete all rules and sets': () => [{ kind: 'destroy-sets' }],
  'delete the device': () => [{ kind: 'delete-device' }],
  'set the device up or down': (_, pick) => [{ kind: 'set-device', to: pick % 2 === 0 ? 'up' : 'down' }],
  'change an address': ({ wanted }, pick) =>
    chosen(
      wanted.addresses.filter((one) => familyOf(one) === 6),
      pick,
    ).map((one): Deed => ({ kind: 'change-address', address: one })),
  'set a sysctl back': (_, pick) =>
    chosen(NODE_SETTINGS.sysctls, pick).map(([key]): Deed => ({ kind: 'set-sysctl', key, value: '0' })),
  'set the IPVS timeouts': () => [{ kind: 'set-timeouts', timeouts: { tcp: 60, tcpFin: 30, udp: 10 } }],
  'add an address to the node': (_, pick) =>
    chosen(NODE_ADDRESSES_THAT_COME, pick).map((one): Deed => ({ kind: 'add-node-address', address: one })),
  'delete an address of the node': (_, pick) =>
    chosen(NODE_ADDRESSES_THAT_COME, pick).map((one): Deed => ({ kind: 'delete-node-address', address: one })),
};

function familyOfPick({ families }: PlanConfig, pick: number): IpFamily {
  return families[(pick >> 3) % families.length] ?? 4;
}

/** The names of all acts, for the history generators. */
export const ACT_NAMES: readonly string[] = Object.keys(ACTS);

export function deedsOf(name: string, scene: Scene, pick: number): readonly Deed[] {
  const act = ACTS[name];
  if (act === undefined) throw new Error(`no such act: ${name}`);
  return act(scene, pick);
}

export function isOp(deed: Deed): deed is Op {
  return OP_KINDS.has(deed.kind);
}

const OP_KINDS = new Set<string>([
  'create-set',
  'destroy-set',
  'add-entry',
  'delete-entry',
  'add-virtual-server',
  'edit-virtual-server',
  'delete-virtual-server',
  'add-real-server',
  'edit-real-server',
  'delete-real-server',
  'bind-address',
  'unbind-address',
]);

function chosen<T>(list: readonly T[], pick: number): readonly T[] {
  return list.slice(pick % Math.max(list.length, 1)).slice(0, 1);
}

function flowTo({ id, realServer }: ReturnType<typeof realServers>[number], pick: number): Flow {
  const family = familyOf(id.address);
  return {
    family,
    protocol: 'UDP',
    source: address(family === 4 ? '192.0.2.7' : 'fd00:5::7'),
    sourcePort: portOf(20_000 + pick),
    destination: id.address,
    destinationPort: id.port,
    replySource: realServer.address,
    replySourcePort: realServer.port,
  };
}

function realServers({ virtualServers }: Wanted) {
  return virtualServers.flatMap((one) => one.realServers.map((realServer) => ({ id: one.virtualServer, realServer })));
}

export function setsOf({ families }: PlanConfig): IpSet[] {
  return families.flatMap((family) => SET_ROLES.map((role) => plannedSet(role, family, 0)));
}

/** Returns the addition of an entry with a port and an address that no Service has. */
function addedEntry(config: PlanConfig, pick: number): Deed {
  const sets = setsOf(config);
  const set = sets[pick % sets.length] ?? plannedSet('CLUSTER-IP', 4, 0);
  const [one, other] = set.family === 4 ? ['10.96.0.250', '10.244.0.250'] : ['fd00:96::250', 'fd00:244::250'];
  const place = { address: address(one), protocol: 'TCP', port: portOf(OTHERS_PORT) } as const;
  const network = { address: address(other), prefix: set.family === 4 ? 32 : 128 };
  const entries: Readonly<Record<IpSet['type'], IpSetEntry>> = {
    'hash:ip': { type: 'hash:ip', address: place.address },
    'hash:ip,port': { type: 'hash:ip,port', ...place },
    'hash:ip,port,ip': { type: 'hash:ip,port,ip', ...place, address2: address(other) },
    'hash:ip,port,net': { type: 'hash:ip,port,net', ...place, network },
    'bitmap:port': { type: 'bitmap:port', port: place.port },
  };
  return { kind: 'add-entry', set, entry: entries[set.type] };
}
