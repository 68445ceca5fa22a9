import { constants } from 'node:os';
import { isIp4, IP_FAMILIES, type IpAddress } from '../../../base/ip.ts';
import { unreachable } from '../../../base/unreachable.ts';
import type { MessageWriter } from '../../../netlink/codec/message-writer.ts';
import { openConnection, type SocketConnection } from '../../../netlink/transport/connection.ts';
import { IFA_F_NODAD, deleteAddress, setAddress } from '../../../netlink/family/route/address.ts';
import { createLink, deleteLinkByName } from '../../../netlink/family/route/link.ts';
import { createTunnel, setIpv4Conf, setLinkUp } from '../../../netlink/family/route/pod-link.ts';
import { decodeLocalAddress, dumpTcpConnections } from '../../../netlink/family/sock-diag/tcp-socket.ts';
import { NETLINK_ROUTE, NETLINK_SOCK_DIAG } from '../../../netlink/netlink-protocol.ts';
import { hostPrefix } from '../../../state/bound-address.ts';
import { type GuePort, POD_DEVICES, type PodDevice, type PodOp } from '../../../state/pod-network.ts';
import type { PodNamespace } from '../../pod-namespaces.ts';
import { askAll, runBatch } from '../batch.ts';
import { readAddresses, readLinks } from '../device-handle.ts';
import { type GuePortOp, GuePorts, type LoadFou } from '../gue-ports.ts';
import { reasonOf } from '../../../state/outcome.ts';
import { withKernelError } from '../netlink-failure.ts';

const { EADDRNOTAVAIL, EEXIST, ENODEV, ENOENT } = constants.errno;

/** Without tcp_diag, no connection is known. */
const NO_DIAG: ReadonlySet<number> = new Set([ENOENT]);
/** Errors that say that the change was made already. */
const DONE: ReadonlySet<number> = new Set([EADDRNOTAVAIL, EEXIST]);

/** A Pod's network namespace, through sockets that were opened inside of it. No program runs there. */
export class LinuxPodNamespace implements PodNamespace {
  readonly path: string;
  readonly interfaces: readonly string[];
  readonly #route: SocketConnection;
  readonly #guePorts: GuePorts;

  /** Throws a NetlinkError if the file is not a network namespace (EINVAL), or is gone (ENOENT). */
  constructor(path: string, interfaces: readonly string[], loadFou: LoadFou) {
    this.path = path;
    this.interfaces = interfaces;
    this.#guePorts = new GuePorts(path, loadFou);
    this.#route = openConnection({ protocol: NETLINK_ROUTE, netns: path });
  }

  close(): void {
    this.#route.close();
  }

  async getDevices(): Promise<readonly PodDevice[]> {
    return await withKernelError(`read the devices in ${this.path}`, async () => {
      const links = await readLinks(this.#route);
      const addresses = await readAddresses(this.#route);
      const byIndex = Map.groupBy(addresses, ({ index }) => index);
      return links.map(({ index, ...link }) => ({
        ...link,
        addresses: byIndex.get(index)?.map(({ address }) => address) ?? [],
      }));
    });
  }

  async getGuePorts(): Promise<readonly GuePort[]> {
    return await withKernelError(`read the GUE ports in ${this.path}`, async () => await this.#guePorts.read());
  }

  async getConnectedAddresses(): Promise<ReadonlySet<IpAddress>> {
    return await withKernelError(`read the connections in ${this.path}`, async () => {
      const connection = openConnection({ protocol: NETLINK_SOCK_DIAG, netns: this.path });
      try {
        const found = await askAll(connection, IP_FAMILIES, {
          operation: 'SOCK_DIAG_BY_FAMILY',
          write: dumpTcpConnections,
          read: ({ payload }) => decodeLocalAddress(payload),
          absent: NO_DIAG,
        });
        return new Set(found);
      } finally {
        connection.close();
      }
    });
  }

  async apply(ops: readonly PodOp[]): Promise<readonly string[]> {
    return await withKernelError(`change devices in ${this.path}`, async () => {
      const ports = await this.#guePorts.apply(ops.filter(isPortOp));
      const devices = await this.#run(ops.filter(isDeviceOp), writeDevice);
      // Devices have their index only now.
      const indexes = new Map((await readLinks(this.#route)).map(({ name, index }) => [name, index]));
      const settings = await this.#run(
        ops.filter((op) => !isPortOp(op) && !isDeviceOp(op)),
        (writer, op) => writeSetting(writer, indexes.get(op.device) ?? 0, op),
      );
      return [...ports, ...devices, ...settings];
    });
  }

  async #run<T extends DeviceOp | SettingOp>(
    ops: readonly T[],
    write: (writer: MessageWriter, op: T) => unknown,
  ): Promise<string[]> {
    const refused = await runBatch(this.#route, ops, write, () => undefined);
    return refused
      .filter(({ item, errno }) => !DONE.has(errno) && !(errno === ENODEV && item.kind === 'delete-device'))
      .map((refusal) => `${refusal.item.kind} ${refusal.item.device}: ${reasonOf(refusal)}`);
  }
}

type DeviceOp = Extract<PodOp, { kind: 'add-device' | 'delete-device' }>;
type SettingOp = Exclude<PodOp, DeviceOp | GuePortOp>;

function isPortOp(op: PodOp): op is GuePortOp {
  return op.kind === 'add-gue-port' || op.kind === 'delete-gue-port';
}

function isDeviceOp(op: PodOp): op is DeviceOp {
  return op.kind === 'add-device' || op.kind === 'delete-device';
}

function writeDevice(writer: MessageWriter, op: DeviceOp): void {
  if (op.kind === 'delete-device') {
    deleteLinkByName(writer, op.device);
    return;
  }
  const { kind } = POD_DEVICES[op.device];
  if (kind === 'dummy' || op.local === undefined) createLink(writer, op.device, kind);
  else createTunnel(writer, op.device, kind, op.local);
}

function writeSetting(writer: MessageWriter, index: number, op: SettingOp): void {
  switch (op.kind) {
    case 'set-up':
      setLinkUp(writer, index);
      break;
    case 'set-rp-filter':
      setIpv4Conf(writer, index, { rpFilter: op.value });
      break;
    case 'set-arp-announce':
      setIpv4Conf(writer, index, { arpAnnounce: op.value });
      break;
    case 'add-address':
    case 'delete-address': {
      const { address } = op;
      const bound = { index, address, prefix: hostPrefix(address) };
      if (op.kind === 'delete-address') deleteAddress(writer, bound);
      else setAddress(writer, { ...bound, flags: isIp4(address) ? 0 : IFA_F_NODAD });
      break;
    }
    default:
      unreachable(op);
  }
}
