import { constants } from 'node:os';
import type { MessageWriter } from '../../netlink/codec/message-writer.ts';
import { type IpvsConfig, decodeConfig, getConfig, setConfig } from '../../netlink/family/ipvs/config.ts';
import {
  addDestination,
  decodeDestination,
  deleteDestination,
  dumpDestinations,
  editDestination,
} from '../../netlink/family/ipvs/destination.ts';
import {
  type IpvsService,
  addService,
  decodeMark,
  decodeService,
  deleteService,
  dumpServices,
  editService,
  getService,
} from '../../netlink/family/ipvs/service.ts';
import { decodeStats } from '../../netlink/family/ipvs/stats.ts';
import { type IpFamily, familyOf, parseIp } from '../../base/ip.ts';
import { type Port, toPort } from '../../base/port.ts';
import { unreachable } from '../../base/unreachable.ts';
import type { ServerOp } from '../../state/op.ts';
import { type OpFailure, failureOf, reasonOf } from '../../state/outcome.ts';
import type { ObservedRealServer } from '../../state/real-server.ts';
import {
  type VirtualServer,
  type VirtualServerId,
  type VirtualServerKey,
  VS_HASHED,
  virtualServerKey,
} from '../../state/virtual-server.ts';
import { type BatchConnection, askAll, runBatch } from '../linux/batch.ts';
import { KernelError } from '../kernel-error.ts';
import type { IpvsTimeouts } from '../kernel.ts';
import type { RefusedItem } from '../linux/netlink-failure.ts';
import type { RealServerStats, VirtualServerStats } from '../../state/server-stats.ts';

const { EEXIST, ENOENT, ESRCH } = constants.errno;
const NOT_THERE = new Set([ENOENT, ESRCH]);
const ABSENT = new Set([ESRCH]);

/** Address of the virtual server that tests a scheduler: in TEST-NET-2, which is not routed. */
const PROBE_ADDRESS = '198.51.100.0';
const PROBE_PORT = 20_000;

/** Virtual and real servers of one network namespace. */
export class IpvsHandle {
  /** For everything except full dumps. */
  readonly connection: BatchConnection;
  /** The ID of the generic netlink family "IPVS"; it changes when ip_vs is unloaded and loaded again. */
  familyId: number;
  readonly #dumps: BatchConnection;
  readonly #onWrite: (messages: number) => void;

  /** `dumps`: a separate socket for full dumps, so that changes do not wait for them. */
  constructor(
    connection: BatchConnection,
    dumps: BatchConnection,
    familyId: number,
    onWrite: (messages: number) => void,
  ) {
    this.connection = connection;
    this.#dumps = dumps;
    this.familyId = familyId;
    this.#onWrite = onWrite;
  }

  async getVirtualServers(): Promise<VirtualServer[]> {
    return await this.#dumpServices((payload) => virtualServerOf(decodeService(payload)));
  }

  /** Returns the firewall marks for which there are virtual servers of the family. */
  async getMarks(family: IpFamily): Promise<number[]> {
    return await this.#dumpServices((payload) => {
      const found = decodeMark(payload);
      return found?.family === family ? found.mark : undefined;
    });
  }

  /** Returns the counters of these virtual servers or, without `ids`, of all. */
  async getStats(ids?: readonly VirtualServerId[]): Promise<Map<VirtualServerKey, VirtualServerStats>> {
    const read = (payload: Uint8Array) => {
      const virtualServer = virtualServerOf(decodeService(payload));
      const stats = decodeStats(payload);
      if (virtualServer === undefined || stats === undefined) return undefined;
      return [virtualServerKey(virtualServer), stats] as const;
    };
    return new Map(await (ids === undefined ? this.#dumpServices(read) : this.#findServices(this.#dumps, ids, read)));
  }

  async findVirtualServers(ids: readonly VirtualServerId[]): Promise<Map<VirtualServerKey, VirtualServer>> {
    const found = await this.#findServices(this.connection, ids, (payload) => virtualServerOf(decodeService(payload)));
    return new Map(found.map((virtualServer) => [virtualServerKey(virtualServer), virtualServer]));
  }

  async getRealServers(ids: readonly VirtualServerId[]): Promise<Map<VirtualServerKey, ObservedRealServer[]>> {
    // The kernel's reply is empty both for a missing virtual server and for one without real servers.
    return await this.#dumpDestinations(this.connection, ids, (_payload, server) => server);
  }

  async getRealServerStats(ids: readonly VirtualServerId[]): Promise<Map<VirtualServerKey, RealServerStats[]>> {
    return await this.#dumpDestinations(this.#dumps, ids, (payload, server) => {
      const { address, port, activeConnections, inactiveConnections } = server;
      const stats = decodeStats(payload);
      return stats === undefined ? undefined : { address, port, activeConnections, inactiveConnections, ...stats };
    });
  }

  async #findServices<R>(
    connection: BatchConnection,
    ids: readonly VirtualServerId[],
    read: (payload: Uint8Array) => R | undefined,
  ): Promise<R[]> {
    return await askAll(connection, ids, {
      operation: 'IPVS_CMD_GET_SERVICE',
      write: (writer, id) => getService(writer, this.familyId, id),
      read: ({ payload }) => read(payload),
      absent: ABSENT,
    });
  }

  async #dumpServices<R>(read: (payload: Uint8Array) => R | undefined): Promise<R[]> {
    return await askAll(this.#dumps, [undefined], {
      operation: 'IPVS_CMD_GET_SERVICE',
      write: (writer) => dumpServices(writer, this.familyId),
      read: ({ payload }) => read(payload),
    });
  }

  async #dumpDestinations<R>(
    connection: BatchConnection,
    ids: readonly VirtualServerId[],
    read: (payload: Uint8Array, server: ObservedRealServer) => R | undefined,
  ): Promise<Map<VirtualServerKey, R[]>> {
    const found = new Map<VirtualServerKey, R[]>();
    await askAll(connection, ids, {
      operation: 'IPVS_CMD_GET_DEST',
      write: (writer, id) => dumpDestinations(writer, this.familyId, id),
      read: ({ payload }, id) => {
        const destination = decodeDestination(payload, familyOf(id.address));
        // Port 0 occurs only in a virtual server with port 0, and such a virtual server is never requested.
        const server = read(payload, { ...destination, port: destination.port as Port });
        if (server === undefined) return;
        const key = virtualServerKey(id);
        const servers = found.get(key);
        if (servers === undefined) found.set(key, [server]);
        else servers.push(server);
      },
      absent: NOT_THERE,
    });
    return found;
  }

  /** Applies the operations in order; objects that are already in the wanted state count as done. */
  async apply(ops: readonly ServerOp[]): Promise<OpFailure[]> {
    const failures: OpFailure[] = [];
    // An addition that finds an existing object becomes an edit. Maps the edit to the addition, which a failure names.
    const edits = new Map<ServerOp, ServerOp>();
    for (const refused of await this.#run(ops)) {
      const edit = refused.errno === EEXIST ? editOf(refused.item) : undefined;
      if (edit !== undefined) edits.set(edit, refused.item);
      else if (!isDone(refused)) failures.push(failureOf(refused.item, refused));
    }
    for (const refused of await this.#run([...edits.keys()])) {
      failures.push(failureOf(edits.get(refused.item) ?? refused.item, refused));
    }
    return failures;
  }

  /** Sets the timeouts that are above 0. */
  async setTimeouts({ tcp, tcpFin, udp }: IpvsTimeouts): Promise<void> {
    const config: IpvsConfig = {
      tcp: tcp > 0 ? tcp : undefined,
      tcpFin: tcpFin > 0 ? tcpFin : undefined,
      udp: udp > 0 ? udp : undefined,
    };
    if (Object.values(config).every((value) => value === undefined)) return;
    const write = (writer: MessageWriter): number => setConfig(writer, this.familyId, config);
    const [refused] = await runBatch(this.connection, [config], write, this.#onWrite);
    if (refused === undefined) return;
    const operation = 'IPVS_CMD_SET_CONFIG';
    throw new KernelError(operation, refused.code, `${operation}: ${reasonOf(refused)}`);
  }

  async getTimeouts(): Promise<IpvsTimeouts> {
    const [config] = await askAll(this.connection, [undefined], {
      operation: 'IPVS_CMD_GET_CONFIG',
      write: (writer) => getConfig(writer, this.familyId),
      read: ({ payload }) => decodeConfig(payload),
    });
    return { tcp: config?.tcp ?? 0, tcpFin: config?.tcpFin ?? 0, udp: config?.udp ?? 0 };
  }

  /** Adds nothing if a virtual server already uses the scheduler. */
  async probeScheduler(scheduler: string): Promise<void> {
    const present = await this.getVirtualServers();
    if (present.some((virtualServer) => virtualServer.scheduler === scheduler)) return;
    const probe = probeServer(scheduler);
    try {
      const [failure] = await this.apply([{ kind: 'add-virtual-server', virtualServer: probe }]);
      if (failure !== undefined) throw schedulerError(scheduler, failure);
      const found = await this.findVirtualServers([probe]);
      if (found.get(virtualServerKey(probe))?.scheduler !== scheduler) {
        const message = `a virtual server with scheduler ${scheduler} was added, but the kernel does not list it`;
        throw new KernelError('probeScheduler', 'PROBE', message);
      }
    } finally {
      await this.apply([{ kind: 'delete-virtual-server', id: probe }]);
    }
  }

  async #run(ops: readonly ServerOp[]): Promise<RefusedItem<ServerOp>[]> {
    return await runBatch(this.connection, ops, (writer, op) => this.#write(writer, op), this.#onWrite);
  }

  #write(writer: MessageWriter, op: ServerOp): number {
    const family = this.familyId;
    switch (op.kind) {
      case 'add-virtual-server':
        return addService(writer, family, op.virtualServer);
      case 'edit-virtual-server':
        return editService(writer, family, op.virtualServer);
      case 'delete-virtual-server':
        return deleteService(writer, family, op.id);
      case 'add-real-server':
        return addDestination(writer, family, op.id, op.realServer);
      case 'edit-real-server':
        return editDestination(writer, family, op.id, op.realServer);
      case 'delete-real-server':
        return deleteDestination(writer, family, op.id, op.realServer);
      default:
        return unreachable(op);
    }
  }
}

/** Returns the edit to run when the object to add already exists. */
function editOf(op: ServerOp): ServerOp | undefined {
  if (op.kind === 'add-virtual-server') return { ...op, kind: 'edit-virtual-server' };
  if (op.kind === 'add-real-server') return { ...op, kind: 'edit-real-server' };
  return undefined;
}

function isDone({ item, errno }: RefusedItem<ServerOp>): boolean {
  return (item.kind === 'delete-virtual-server' || item.kind === 'delete-real-server') && NOT_THERE.has(errno);
}

/** Returns undefined for what no Service can request: virtual servers defined by firewall mark, or with port 0. */
function virtualServerOf(service: IpvsService | undefined): VirtualServer | undefined {
  const port = toPort(service?.port);
  if (service === undefined || port === undefined) return undefined;
  const { address, protocol, scheduler, flags, timeout, prefix } = service;
  return { address, port, protocol, scheduler, flags: flags & ~VS_HASHED, timeout, prefix };
}

function probeServer(scheduler: string): VirtualServer {
  const address = parseIp(PROBE_ADDRESS);
  const port = toPort(PROBE_PORT);
  if (address === undefined || port === undefined) throw new Error('the probe address or port is invalid');
  return { address, port, protocol: 'TCP', scheduler, flags: 0, timeout: 0, prefix: 32 };
}

function schedulerError(scheduler: string, failure: OpFailure): KernelError {
  const message =
    failure.errno === ENOENT
      ? `the kernel has no IPVS scheduler ${scheduler}: is the module ip_vs_${scheduler} missing? Run \`modprobe ip_vs_${scheduler}\` on the node`
      : `the IPVS scheduler ${scheduler} cannot be tested: ${reasonOf(failure)}`;
  return new KernelError('probeScheduler', failure.code, message);
}
