import { constants } from 'node:os';
import { type TrackedFlow, decodeFlow, deleteFlow, dumpFlows } from '../../netlink/family/conntrack/flow.ts';
import type { IpFamily } from '../../base/ip.ts';
import { toPort } from '../../base/port.ts';
import { PROTOCOL_NUMBER, protocolFromNumber } from '../../base/protocol.ts';
import { type BatchConnection, askAll, runBatch } from './batch.ts';
import { KernelError } from '../kernel-error.ts';
import type { Flow } from '../kernel.ts';

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
    const found: Flow[] = [];
    await askAll(this.#connection, [family], {
      operation: 'IPCTNL_MSG_CT_GET',
      write: (writer) => dumpFlows(writer, family, PROTOCOL_NUMBER.UDP),
      read: ({ payload }) => {
        const flow = flowOf(family, decodeFlow(payload));
        // Kernels before 5.8 return flows of every protocol.
        if (flow?.protocol === 'UDP') found.push(flow);
      },
    });
    return found;
  }

  /** Returns how many of the flows still existed. */
  async deleteFlows(flows: readonly Flow[]): Promise<number> {
    const refused = await runBatch(
      this.#connection,
      flows,
      (writer, { source, destination, sourcePort, destinationPort, protocol }) =>
        deleteFlow(writer, {
          original: { source, destination, sourcePort, destinationPort, protocol: PROTOCOL_NUMBER[protocol] },
        }),
      this.#onWrite,
    );
    const failed = refused.find(({ errno }) => errno !== ENOENT);
    if (failed !== undefined) {
      const { code, text } = failed;
      const message = `failed to delete a flow of connection tracking: ${code}${text === '' ? '' : `: ${text}`}`;
      throw new KernelError('deleteFlows', code, message);
    }
    return flows.length - refused.length;
  }
}

function flowOf(family: IpFamily, tracked: TrackedFlow | undefined): Flow | undefined {
  if (tracked === undefined) return undefined;
  const { original, reply } = tracked;
  const protocol = protocolFromNumber(original.protocol);
  const sourcePort = toPort(original.sourcePort);
  const destinationPort = toPort(original.destinationPort);
  const replySourcePort = toPort(reply.sourcePort);
  if (protocol === undefined || sourcePort === undefined) return undefined;
  if (destinationPort === undefined || replySourcePort === undefined) return undefined;
  const { source, destination } = original;
  return {
    family,
    protocol,
    source,
    sourcePort,
    destination,
    destinationPort,
    replySource: reply.source,
    replySourcePort,
  };
}
