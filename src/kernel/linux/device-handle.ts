import { constants } from 'node:os';
import {
  IFA_F_DADFAILED,
  IFA_F_DEPRECATED,
  IFA_F_NODAD,
  IFA_F_PERMANENT,
  IFA_F_TENTATIVE,
  type ObservedInterfaceAddress,
  decodeAddress,
  deleteAddress,
  dumpAddresses,
  setAddress,
} from '../../netlink/family/route/address.ts';
import {
  type Link,
  createLink,
  decodeLink,
  deleteLinkByName,
  dumpLinks,
  getLink,
} from '../../netlink/family/route/link.ts';
import { deleteRouteTo } from '../../netlink/family/route/host-route.ts';
import { decodeChosenRoute, lookUpRoute } from '../../netlink/family/route/route-lookup.ts';
import type { MessageWriter } from '../../netlink/codec/message-writer.ts';
import { IP_FAMILIES, type IpAddress, isIp4, isLinkLocal6 } from '../../base/ip.ts';
import { type BoundAddress, hostPrefix } from '../../state/bound-address.ts';
import type { LocalRoute } from '../../state/local-route.ts';
import type { Op } from '../../state/op.ts';
import type { Route } from '../../state/route.ts';
import { type OpFailure, reasonOf, failureOf } from '../../state/outcome.ts';
import { type BatchConnection, askAll, runBatch } from './batch.ts';
import { codeOf } from '../errno.ts';
import { KernelError } from '../kernel-error.ts';
import type { NodeAddress } from '../kernel.ts';
import { type RouteOp, isRouteDone, readLocalRoutes, readRoutedAddresses, writeRoute } from './local-route-table.ts';
import type { RefusedItem } from './netlink-failure.ts';

/** Operations on the addresses of kube-ipvs0, and on the local routes that replace them. */
export type AddressOp = Extract<Op, { kind: 'bind-address' | 'unbind-address' }> | RouteOp;

/** The only interface that we create, change or delete. */
export const DEVICE = 'kube-ipvs0';
const KIND = 'dummy';

const { EACCES, EADDRNOTAVAIL, EEXIST, EHOSTUNREACH, EINVAL, ENETUNREACH, ENODEV } = constants.errno;

/** There is no route, or an unreachable, a prohibit or a blackhole one. */
const NO_ROUTE: ReadonlySet<number> = new Set([ENETUNREACH, EHOSTUNREACH, EACCES, EINVAL]);

/** The kernel compares each new address with all addresses of the interface: adding 500 to 10,000 takes 0.1 s. */
const PER_SEGMENT = 50;

/** kube-ipvs0 and the addresses of all interfaces of one network namespace. */
export class DeviceHandle {
  readonly #connection: BatchConnection;
  readonly #onWrite: (messages: number) => void;

  constructor(connection: BatchConnection, onWrite: (messages: number) => void) {
    this.#connection = connection;
    this.#onWrite = onWrite;
  }

  /**
   * Creates the dummy interface if it is missing. It is DOWN, as in kube-proxy: its addresses are still reachable, and
   * routing daemons do not advertise them. An interface that is UP stays UP: DOWN would remove its IPv6 addresses.
   */
  async ensureDevice(): Promise<{ readonly made: boolean }> {
    const present = await this.#find();
    if (present !== undefined) {
      requireDummy(present);
      return { made: false };
    }
    const [refused] = await this.#run([DEVICE], (writer) => createLink(writer, DEVICE, KIND));
    if (refused !== undefined && refused.errno !== EEXIST) throw deviceError('created', refused);
    const link = await this.#find();
    if (link === undefined) throw new KernelError('device', 'ENODEV', `interface ${DEVICE} was created but is gone`);
    requireDummy(link);
    return { made: true };
  }

  /** Returns the interface's index; undefined if it does not exist. */
  async index(): Promise<number | undefined> {
    return (await this.#find())?.index;
  }

  /** Deletes the interface, unless it is of another kind: it then belongs to another program. */
  async removeDevice(): Promise<void> {
    if ((await this.#find())?.kind !== KIND) return;
    const [refused] = await this.#run([DEVICE], deleteLinkByName);
    if (refused !== undefined && refused.errno !== ENODEV) throw deviceError('deleted', refused);
  }

  async getBoundAddresses(): Promise<BoundAddress[]> {
    const link = await this.#find();
    if (link?.kind !== KIND) return [];
    const all = await readAddresses(this.#connection);
    const bound = all.filter(({ index, address }) => index === link.index && !isLinkLocal6(address));
    if (bound.length === 0) return [];
    const routed = await readRoutedAddresses(this.#connection);
    return bound.map(({ address, prefix, flags }) => ({
      address,
      prefix,
      conforms: conforms(address, flags),
      ...(routed.get(address) === true ? {} : { unrouted: true }),
    }));
  }

  async getLocalRoutes(): Promise<LocalRoute[]> {
    return await readLocalRoutes(this.#connection);
  }

  async findRoutes(destinations: readonly IpAddress[]): Promise<Map<IpAddress, Route>> {
    const chosen = await askAll(this.#connection, destinations, {
      operation: 'RTM_GETROUTE',
      write: lookUpRoute,
      read: ({ payload }, destination) => [destination, decodeChosenRoute(payload)] as const,
      absent: NO_ROUTE,
    });
    const names = new Map((await readLinks(this.#connection)).map(({ index, name }) => [index, name]));
    const routes = new Map<IpAddress, Route>();
    for (const [destination, route] of chosen) {
      if (route === undefined) continue;
      const { index, ...rest } = route;
      const interfaceName = names.get(index);
      if (interfaceName !== undefined) routes.set(destination, { ...rest, interfaceName });
    }
    return routes;
  }

  async findUnforwarded(): Promise<string[]> {
    const links = await readLinks(this.#connection);
    // A bridge or a bond receives the packets of its ports; with a VRF, the ports do.
    const takers = new Set(links.flatMap(({ index, kind }) => (kind === 'vrf' ? [] : [index])));
    return links
      .filter(isNotOurs)
      .filter(({ up, loopback, master }) => up && !loopback && (master === undefined || !takers.has(master)))
      .flatMap(({ name, forwards4 }) => (forwards4 === false ? [name] : []));
  }

  async getNodeAddresses(): Promise<NodeAddress[]> {
    const others = (await readLinks(this.#connection)).filter(isNotOurs);
    const names = new Map(others.map(({ index, name }) => [index, name]));
    const found: NodeAddress[] = [];
    for (const { index, address, prefix, flags } of await readAddresses(this.#connection)) {
      const interfaceName = names.get(index);
      // The interface was created between the two dumps. The watch reports it, and the next read includes it.
      if (interfaceName === undefined) continue;
      found.push({ address, prefix, interfaceName, tentative: (flags & (IFA_F_TENTATIVE | IFA_F_DADFAILED)) !== 0 });
    }
    return found;
  }

  /** Applies the operations in order. Adding what exists, or deleting what does not, is no failure. */
  async apply(ops: readonly AddressOp[]): Promise<OpFailure[]> {
    const found = await this.#find();
    const link = found?.kind === KIND ? found : undefined;
    // Routes do not need kube-ipvs0.
    const possible = link === undefined ? ops.filter((op) => 'cidr' in op) : ops;
    const index = link?.index ?? 0;
    // A refusal needs no report: the operation itself then finds the address, or its route is still missing.
    const again = possible.flatMap((op) => (op.kind === 'bind-address' && op.again === true ? [op.address] : []));
    await this.#run(again, (writer, address) => deleteAddress(writer, { index, address, prefix: hostPrefix(address) }));
    // Another program may have put a route in place of the local one. It would stay in front of the one that binding adds.
    await this.#run(again, deleteRouteTo);
    const refused = await this.#run(possible, (writer, op) => writeAddress(writer, index, op));
    const failures = refused.filter((refusal) => !isDone(refusal)).map((refusal) => failureOf(refusal.item, refusal));
    if (link !== undefined) return failures;
    const reason = found === undefined ? `interface ${DEVICE} does not exist` : wrongKind(found);
    for (const op of ops) {
      if (op.kind === 'bind-address') failures.push({ op, errno: ENODEV, code: codeOf(ENODEV), text: reason });
    }
    return failures;
  }

  async #find(): Promise<Link | undefined> {
    const [link] = await askAll(this.#connection, [DEVICE], {
      operation: 'RTM_GETLINK',
      write: getLink,
      read: ({ payload }) => decodeLink(payload),
      absent: new Set([ENODEV]),
    });
    return link;
  }

  async #run<T>(items: readonly T[], write: (writer: MessageWriter, item: T) => unknown): Promise<RefusedItem<T>[]> {
    return await runBatch(this.#connection, items, write, this.#onWrite, PER_SEGMENT);
  }
}

/** Reads all interfaces of a network namespace. */
export async function readLinks(connection: BatchConnection): Promise<Link[]> {
  return await askAll(connection, [undefined], {
    operation: 'RTM_GETLINK',
    write: dumpLinks,
    read: ({ payload }) => decodeLink(payload),
  });
}

export async function readAddresses(connection: BatchConnection): Promise<ObservedInterfaceAddress[]> {
  return await askAll(connection, IP_FAMILIES, {
    operation: 'RTM_GETADDR',
    write: dumpAddresses,
    read: ({ payload }) => decodeAddress(payload),
  });
}

function isNotOurs({ name, kind }: Link): boolean {
  return name !== DEVICE || kind !== KIND;
}

function writeAddress(writer: MessageWriter, index: number, op: AddressOp): void {
  if ('cidr' in op) {
    writeRoute(writer, op);
    return;
  }
  const { address } = op;
  const prefix = hostPrefix(address);
  if (op.kind === 'unbind-address') {
    deleteAddress(writer, { index, address, prefix: op.prefix ?? prefix });
    return;
  }
  // IPv6: usable without duplicate address detection, and never the source address of the node's own connections.
  const details = isIp4(address) ? {} : { flags: IFA_F_NODAD, preferredLifetime: 0 };
  // Replaces an existing address: flags and lifetimes change in place, and the address is never removed.
  setAddress(writer, { index, address, prefix, ...details });
}

/** Returns whether the flags are those that writeAddress sets. */
function conforms(address: IpAddress, flags: number): boolean {
  if (isIp4(address)) return (flags & (IFA_F_PERMANENT | IFA_F_DEPRECATED)) === IFA_F_PERMANENT;
  const wanted = IFA_F_PERMANENT | IFA_F_DEPRECATED | IFA_F_NODAD;
  return (flags & wanted) === wanted;
}

function wrongKind({ kind }: Link): string {
  return `interface ${DEVICE} is not a dummy interface but ${kind ?? 'hardware'}: rename or delete it`;
}

function requireDummy(link: Link): void {
  if (link.kind !== KIND) throw new KernelError('device', 'EEXIST', wrongKind(link));
}

function isDone({ item, errno }: RefusedItem<AddressOp>): boolean {
  if ('cidr' in item) return isRouteDone(item, errno);
  // ENODEV: the interface was deleted meanwhile, and its addresses with it.
  if (item.kind === 'unbind-address') return errno === EADDRNOTAVAIL || errno === ENODEV;
  return errno === EEXIST;
}

function deviceError(verb: string, refused: RefusedItem<unknown>): KernelError {
  const { code } = refused;
  const hint = code === 'EOPNOTSUPP' ? '; is the module dummy missing?' : '';
  return new KernelError('device', code, `interface ${DEVICE} cannot be ${verb}: ${reasonOf(refused)}${hint}`);
}
