import { constants } from 'node:os';
import { type TrackedFlow, decodeFlow, deleteFlow, dumpFlows } from '../../netlink/family/conntrack/flow.ts';
import type { IpAddress, IpFamily } from '../../base/ip.ts';
import { toPort } from '../../base/port.ts';
import { PROTOCOL_NUMBER, protocolFromNumber } from '../../base/protocol.ts';
import { type BatchConnection, askAll, runBatch } from './batch.ts';
import { KernelError } from '../kernel-error.ts';
import type { Flow } from '../kernel.ts';
import { reasonOf } from './netlink-failure.ts';

const { ENOENT } = constants.errno;

/** Connection tracking of one network namespace. */
export class ConntrackHandle {
  readonly #connection: BatchConnection;
  readonly #onWrite: (messages: number) => void;

  constructor(connection: BatchConnection, onWrite: (messages: number) => void) {
    this.#connection = connection;
    this.#onWrite = onWrite;
  }

  async getUdpFlows(family: IpFamily): Promise<Flow[]> {
    return await askAll(this.#connection, [family], {
      operation: 'IPCTNL_MSG_CT_GET',
      write: (writer) => dumpFlows(writer, family, PROTOCOL_NUMBER.UDP),
      read: ({ payload }) => {
        const flow = flowOf(family, decodeFlow(payload));
        // Kernels before 5.8 return flows of every protocol.
        return flow?.protocol === 'UDP' ? flow : undefined;
      },
    });
  }

  /** Returns which of these addresses are the source of a flow's original direction, whatever the protocol. */
  async getFlowSources(family: IpFamily, among: (address: IpAddress) => boolean): Promise<Set<IpAddress>> {
    const found = await askAll(this.#connection, [family], {
      operation: 'IPCTNL_MSG_CT_GET',
      write: (writer) => dumpFlows(writer, family),
      read: ({ payload }) => {
        const source = decodeFlow(payload)?.original.source;
        return source !== undefined && among(source) ? source : undefined;
      },
    });
    return new Set(found);
  }

  /** Returns how many of the flows still existed. */
  async deleteFlows(flows: readonly Flow[]): Promise<number> {
    const refused = await runBatch(
      this.#connection,
      flows,
      (writer, flow) => deleteFlow(writer, { ...flow, protocol: PROTOCOL_NUMBER[flow.protocol] }),
      this.#onWrite,
    );
    const failed = refused.find(({ errno }) => errno !== ENOENT);
    if (failed !== undefined) {
      const message = `failed to delete a flow of connection tracking: ${reasonOf(failed)}`;
      throw new KernelError('deleteFlows', failed.code, message);
    }
    return flows.length - refused.length;
  }
}

function flowOf(family: IpFamily, tracked: TrackedFlow | undefined): Flow | undefined {
  if (tracked === undefined) return undefined;
  const { source, destination, ...original } = tracked.original;
  const protocol = protocolFromNumber(original.protocol);
  const sourcePort = toPort(original.sourcePort);
  const destinationPort = toPort(original.destinationPort);
  const replySource = tracked.reply.source;
  const replySourcePort = toPort(tracked.reply.sourcePort);
  if (protocol === undefined || sourcePort === undefined) return undefined;
  if (destinationPort === undefined || replySourcePort === undefined) return undefined;
  return { family, protocol, source, sourcePort, destination, destinationPort, replySource, replySourcePort };
}
