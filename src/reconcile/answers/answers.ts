import type { IpAddress } from '../../base/ip.ts';
import type { NamespacedName } from '../../base/service/names.ts';
import { Yielder } from '../../base/yielder.ts';
import { READ_ONLY_LEDGER } from '../../diff/drain.ts';
import type { AskedAddress } from '../../explain/address-reply.ts';
import type { FoundOperations } from '../../explain/difference/difference-reply.ts';
import type { Problem } from '../../explain/packet/packet-target.ts';
import type { AddressOwnerReply, PacketReply, ServiceReply } from '../../explain/replies.ts';
import { wordsOf } from '../../explain/words.ts';
import type { KernelReader } from '../../kernel/kernel.ts';
import type { Cluster } from '../../model/cluster.ts';
import type { Op } from '../../state/op.ts';
import { type Difference, type DifferenceParts, readDifference } from './difference.ts';
import { forwardingNotes } from '../node/node-difference.ts';
import { type NodeSettings, differingSettings } from '../node/node-settings.ts';
import type { RetryQueue } from '../sync/retry-queue.ts';

/** The plan, and the access to the kernel, from which questions are answered. */
export interface AnswerParts extends Omit<DifferenceParts, 'ledger' | 'known' | 'sizes'> {
  readonly cluster: Cluster;
  readonly settings: NodeSettings;
  /** Absent if nothing is written, so that nothing can have been refused. */
  readonly retries?: RetryQueue;
  /** Called before each answer, to plan what has changed; absent if syncs do. */
  readonly refresh?: () => Promise<void>;
  /** Tells which of the differing operations differences from kube-proxy explain; absent if there is none. */
  readonly explainKnown?: (ops: readonly Op[]) => Promise<FoundOperations['knownOf']>;
}

/**
 * Answers questions about Services, addresses and packets. It may read the kernel while a sync writes. Most daemons are
 * never asked, so what explains is loaded with the first question.
 */
export class Answers {
  readonly #parts: AnswerParts & DifferenceParts;

  constructor(parts: AnswerParts) {
    // A comparison for an answer records nothing for later syncs.
    const notes = { ledger: READ_ONLY_LEDGER, known: { note: () => undefined }, sizes: new Map<never, never>() };
    this.#parts = { ...parts, ...notes };
  }

  /** Explains a Service: its plan, and what the kernel has of it. Undefined if the Service is unknown. */
  async service(name: NamespacedName, compareRules: KernelReader['compareRules']): Promise<ServiceReply | undefined> {
    const { readFoundService } = await import('./found-service.ts');
    const { serviceReply } = await import('../../explain/service-reply.ts');
    await this.#parts.refresh?.();
    const { cluster, config, desired, kernel } = this.#parts;
    const found = await readFoundService({ ...this.#parts, compareRules }, name);
    const definition = cluster.definition(name);
    if (definition === undefined) return undefined;
    const node = desired.nodeView();
    const words = wordsOf(kernel.mode);
    const known = { name, definition, slices: cluster.slices(name), node, config, plan: desired.plan, found, words };
    return await new Yielder().finish(serviceReply(known));
  }

  /** Says to which Service an address and port belong. */
  async address(asked: AskedAddress): Promise<AddressOwnerReply> {
    const { readFoundAddress } = await import('./found-address.ts');
    const { addressReply, plannedAt } = await import('../../explain/address-reply.ts');
    await this.#parts.refresh?.();
    const { config, desired, kernel } = this.#parts;
    const { address, port, protocols } = asked;
    const ids =
      port === undefined
        ? plannedAt(address, protocols, desired.plan)
        : protocols.map((protocol) => ({ address, port, protocol }));
    const found = await readFoundAddress(this.#parts, ids);
    return await new Yielder().finish(addressReply(config.nodeName, asked, desired.plan, found, wordsOf(kernel.mode)));
  }

  /** Explains the path of a packet to an address, or to the cluster IP of a Service. */
  async packet(
    from: IpAddress,
    target: AskedAddress | NamespacedName,
    compareRules: KernelReader['compareRules'],
  ): Promise<PacketReply | Problem> {
    const { readFoundPacket } = await import('./found-packet.ts');
    const { packetTarget } = await import('../../explain/packet/packet-target.ts');
    const { packetReply } = await import('../../explain/packet/packet-reply.ts');
    await this.#parts.refresh?.();
    const { cluster, config, desired, kernel } = this.#parts;
    const asked = packetTarget(from, target, desired.plan, config);
    if ('problem' in asked) return asked;
    const found = await readFoundPacket({ ...this.#parts, compareRules }, asked);
    const node = desired.nodeView();
    const slices = (name: NamespacedName) => cluster.slices(name);
    const known = { asked, node, config, plan: desired.plan, slices, found, mode: kernel.mode };
    return await new Yielder().finish(packetReply(known));
  }

  /** Returns how the kernel differs from the plan: the first `most` operations. */
  async difference(signal: AbortSignal, most?: number): Promise<Difference> {
    await this.#parts.refresh?.();
    const { settings, explainKnown } = this.#parts;
    const found = await readDifference(this.#parts, settings, signal, most);
    const knownOf = await explainKnown?.(found.ops);
    return knownOf === undefined ? found : { ...found, knownOf };
  }

  /** Returns the commands that set sysctls and IPVS timeouts as wanted; none if they are. */
  async settings(): Promise<readonly string[]> {
    const { kernel, settings } = this.#parts;
    return (await differingSettings(kernel, settings)).map(({ command }) => command);
  }

  /** Returns which settings of the node stop packets of Services and are not changed. */
  forwardingNotes(): Promise<readonly string[]> {
    return forwardingNotes(this.#parts.kernel, this.#parts.desired.plan);
  }
}
