import { constants } from 'node:os';
import { type TrackedFlow, decodeFlow, deleteFlow, dumpFlows } from '../../netlink/family/conntrack/flow.ts';
import { type Cidr, containedIn, isHost } from '../../base/cidr.ts';
import type { IpAddress, IpFamily } from '../../base/ip.ts';
import { toPort } from '../../base/port.ts';
import { PROTOCOL_NUMBER, protocolFromNumber } from '../../base/protocol.ts';
import { type BatchConnection, askAll, runBatch } from './batch.ts';
import { KernelError } from '../kernel-error.ts';
import type { Flow } from '../kernel.ts';
import { reasonOf } from '../../state/outcome.ts';

const { ENOENT } = constants.errno;

/** Each dump makes the kernel visit all flows. */
const MOST_DUMPS = 8;

/** Connection tracking of one network namespace. */
export class ConntrackHandle {
  readonly #connection: BatchConnection;
  readonly #onWrite: (messages: number) => void;
  /** Whether the kernel selects flows (since 5.8), as far as is known. */
  #hasFilters = true;

  constructor(connection: BatchConnection, onWrite: (messages: number) => void) {
    this.#connection = connection;
    this.#onWrite = onWrite;
  }

  async getUdpFlows(family: IpFamily): Promise<Flow[]> {
    return await askAll(this.#connection, [family], {
      operation: 'IPCTNL_MSG_CT_GET',
      write: (writer) => dumpFlows(writer, family, { protocol: PROTOCOL_NUMBER.UDP }),
      read: ({ payload }) => {
        const flow = flowOf(family, decodeFlow(payload));
        // Kernels before 5.8 return flows of every protocol.
        return flow?.protocol === 'UDP' ? flow : undefined;
      },
    });
  }

  /** Returns which addresses of these networks are the source of a flow's original direction, whatever the protocol. */
  async getFlowSources(family: IpFamily, among: readonly Cidr[]): Promise<Set<IpAddress>> {
    const isAmong = containedIn(among);
    const sources = await askAll(this.#connection, this.#filters(among), {
      operation: 'IPCTNL_MSG_CT_GET',
      write: (writer, filter) => dumpFlows(writer, family, filter),
      read: ({ payload }, filter) => {
        const source = decodeFlow(payload)?.original.source;
        if (source === undefined) return undefined;
        if (filter !== undefined && source !== filter.source) this.#hasFilters = false;
        return isAmong(source) ? source : undefined;
      },
    });
    return new Set(sources);
  }

  /** A dump of each address has fewer replies than one of everything, if they are few and the kernel selects flows. */
  #filters(among: readonly Cidr[]): readonly ({ readonly source: IpAddress } | undefined)[] {
    const isFew = among.length <= MOST_DUMPS && among.every(isHost);
    return this.#hasFilters && isFew ? among.map(({ address }) => ({ source: address })) : [undefined];
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
