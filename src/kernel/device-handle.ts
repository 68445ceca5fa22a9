import { constants } from 'node:os';
import {
  IFA_F_DADFAILED,
  IFA_F_NODAD,
  IFA_F_TENTATIVE,
  type ObservedInterfaceAddress,
  addAddress,
  decodeAddress,
  deleteAddress,
  dumpAddresses,
} from '../netlink/family/route/address.ts';
import {
  IFF_UP,
  type Link,
  createLink,
  decodeLink,
  deleteLinkByName,
  dumpLinks,
  getLink,
  setLinkUp,
} from '../netlink/family/route/link.ts';
import type { MessageWriter } from '../netlink/codec/message-writer.ts';
import { IP_FAMILIES, type IpAddress, isIp4, isLinkLocal6 } from '../net/ip.ts';
import type { LocalRoute } from '../state/local-route.ts';
import type { Op } from '../state/op.ts';
import type { OpFailure } from '../state/outcome.ts';
import { type BatchConnection, askAll, runBatch } from './batch.ts';
import { codeOf } from './errno.ts';
import { KernelError } from './kernel-error.ts';
import type { NodeAddress } from './kernel.ts';
import { type RouteOp, isRouteDone, readLocalRoutes, writeRoute } from './local-routes.ts';
import type { Refusal } from './netlink-failure.ts';

/** Operations on the addresses of kube-ipvs0, and on the routes that stand for them. */
export type AddressOp = Extract<Op, { kind: 'bind-address' | 'unbind-address' }> | RouteOp;

/** The one interface that we make, change and delete; no other is ever touched. */
export const DEVICE = 'kube-ipvs0';

const { EADDRNOTAVAIL, EEXIST, ENODEV } = constants.errno;

/** The kernel compares each new address with all that the interface has: 500 of them at 10,000 take a tenth of a second. */
const PER_SEGMENT = 50;

/** kube-ipvs0 and the addresses of all interfaces of one network namespace. */
export class DeviceHandle {
  readonly #connection: BatchConnection;
  readonly #onWrite: (messages: number) => void;

  constructor(connection: BatchConnection, onWrite: (messages: number) => void) {
    this.#connection = connection;
    this.#onWrite = onWrite;
  }

  /** The interface exists, is a dummy, and is up. */
  async prepare(): Promise<void> {
    if ((await this.#find()) === undefined) {
      const [refused] = await this.#run([DEVICE], (writer) => createLink(writer, DEVICE, 'dummy'));
      if (refused !== undefined && refused.errno !== EEXIST) throw deviceError('made', refused);
    }
    const link = await this.#find();
    if (link === undefined) throw new KernelError('prepare', 'ENODEV', `${DEVICE} was made but is not there`);
    if (link.kind !== 'dummy') {
      const message = `interface ${DEVICE} is not a dummy interface but ${link.kind ?? 'hardware'}: rename or delete it`;
      throw new KernelError('prepare', 'EEXIST', message);
    }
    if ((link.flags & IFF_UP) !== 0) return;
    const [refused] = await this.#run([link], (writer, { index }) => setLinkUp(writer, index, true));
    if (refused !== undefined) throw deviceError('set up', refused);
  }

  /** The interface's index; undefined where there is none. */
  async index(): Promise<number | undefined> {
    return (await this.#find())?.index;
  }

  async remove(): Promise<void> {
    if ((await this.#find()) === undefined) return;
    const [refused] = await this.#run([DEVICE], deleteLinkByName);
    if (refused !== undefined && refused.errno !== ENODEV) throw deviceError('deleted', refused);
  }

  async getBoundAddresses(): Promise<IpAddress[]> {
    const link = await this.#find();
    if (link === undefined) return [];
    const all = await this.#addresses();
    const bound = all.filter(({ index, address }) => index === link.index && !isLinkLocal6(address));
    return bound.map(({ address }) => address);
  }

  async getLocalRoutes(): Promise<LocalRoute[]> {
    return await readLocalRoutes(this.#connection);
  }

  async getNodeAddresses(): Promise<NodeAddress[]> {
    const names = new Map<number, string>();
    await askAll(this.#connection, [undefined], {
      operation: 'RTM_GETLINK',
      write: dumpLinks,
      read: ({ payload }) => {
        const { index, name } = decodeLink(payload);
        names.set(index, name);
      },
    });
    const found: NodeAddress[] = [];
    for (const { index, address, prefix, flags } of await this.#addresses()) {
      const interfaceName = names.get(index);
      // An interface that came between the two dumps is seen next time: the watch reports it.
      if (interfaceName === undefined || interfaceName === DEVICE) continue;
      found.push({ address, prefix, interfaceName, tentative: (flags & (IFA_F_TENTATIVE | IFA_F_DADFAILED)) !== 0 });
    }
    return found;
  }

  /** In the order given; what already is as it should be counts as done. */
  async apply(ops: readonly AddressOp[]): Promise<OpFailure[]> {
    const link = await this.#find();
    // Routes need no kube-ipvs0.
    const possible = link === undefined ? ops.filter((op) => 'cidr' in op) : ops;
    const refused = await this.#run(possible, (writer, op) => writeAddress(writer, link?.index ?? 0, op));
    const failures = refused.filter((refusal) => !isDone(refusal)).map(failureOf);
    if (link === undefined) failures.push(...ops.filter(({ kind }) => kind === 'bind-address').map(withoutDevice));
    return failures;
  }

  async #find(): Promise<Link | undefined> {
    let link: Link | undefined;
    await askAll(this.#connection, [DEVICE], {
      operation: 'RTM_GETLINK',
      write: getLink,
      read: ({ payload }) => {
        link = decodeLink(payload);
      },
      absent: new Set([ENODEV]),
    });
    return link;
  }

  async #addresses(): Promise<ObservedInterfaceAddress[]> {
    const found: ObservedInterfaceAddress[] = [];
    await askAll(this.#connection, IP_FAMILIES, {
      operation: 'RTM_GETADDR',
      write: dumpAddresses,
      read: ({ payload }) => {
        const address = decodeAddress(payload);
        if (address !== undefined) found.push(address);
      },
    });
    return found;
  }

  async #run<T>(items: readonly T[], write: (writer: MessageWriter, item: T) => unknown): Promise<Refusal<T>[]> {
    return await runBatch(this.#connection, items, write, this.#onWrite, PER_SEGMENT);
  }
}

function writeAddress(writer: MessageWriter, index: number, op: AddressOp): void {
  if ('cidr' in op) {
    writeRoute(writer, op);
    return;
  }
  const { kind, address } = op;
  const prefix = isIp4(address) ? 32 : 128;
  if (kind === 'unbind-address') deleteAddress(writer, { index, address, prefix });
  else if (isIp4(address)) addAddress(writer, { index, address, prefix });
  // Usable at once, and never the source of the node's own connections.
  else addAddress(writer, { index, address, prefix, flags: IFA_F_NODAD, preferredLifetime: 0 });
}

function isDone({ item, errno }: Refusal<AddressOp>): boolean {
  if ('cidr' in item) return isRouteDone(item, errno);
  // The interface has gone meanwhile, and its addresses with it.
  if (item.kind === 'unbind-address') return errno === EADDRNOTAVAIL || errno === ENODEV;
  return errno === EEXIST;
}

function withoutDevice(op: AddressOp): OpFailure {
  return { op, errno: ENODEV, code: codeOf(ENODEV), text: `interface ${DEVICE} does not exist` };
}

function failureOf({ item, errno, code, text }: Refusal<AddressOp>): OpFailure {
  return { op: item, errno, code, text };
}

function deviceError(verb: string, { code, text }: Refusal<unknown>): KernelError {
  const reason = `${code}${text === '' ? '' : `: ${text}`}`;
  const hint = code === 'EOPNOTSUPP' ? '; is the module dummy missing?' : '';
  return new KernelError('device', code, `interface ${DEVICE} cannot be ${verb}: ${reason}${hint}`);
}
