import { MODES } from '../../base/proxy-mode.ts';
import { counted } from '../../base/text/counted.ts';
import { kernelAddressReply } from '../../explain/kernel-address-reply.ts';
import { kernelOnly } from '../../explain/kernel-only.ts';
import type { AddressOwnerReply, KernelStatusReply, TrafficBy, TrafficReply } from '../../explain/replies.ts';
import { wordsOf } from '../../explain/words.ts';
import type { KernelReader } from '../../kernel/kernel.ts';
import { findServing } from '../../reconcile/compare/read-virtual-servers.ts';
import type { Clock } from '../../reconcile/timing/clock.ts';
import { borrows, formatVirtualServer, virtualServerKey } from '../../state/virtual-server.ts';
import { askedAddress } from './asked-address.ts';
import { conntrackUse } from './conntrack-use.ts';
import { requireCounters } from './question-error.ts';
import { trafficReply } from './traffic.ts';

const MOST_LISTED = 20;

/** Answers from the kernel alone, on a node where no daemon runs. Which Services there are is not known. */
export class KernelAnswers {
  readonly #node: string;
  readonly #kernel: KernelReader;
  readonly #clock: Pick<Clock, 'now'>;

  constructor(node: string, kernel: KernelReader, clock: Pick<Clock, 'now'>) {
    this.#node = node;
    this.#kernel = kernel;
    this.#clock = clock;
  }

  async status(): Promise<KernelStatusReply> {
    const kernel = this.#kernel;
    const words = wordsOf(kernel.mode);
    const ids = await kernel.getVirtualServers();
    const realServers = await findServing(kernel, ids);
    const owners = ids.filter((id) => !borrows(id, id));
    const unserved = ids.filter(
      (id) => realServers.get(virtualServerKey(id))?.some(({ weight }) => weight > 0) !== true,
    );
    const sets = (await kernel.getSets())
      .filter(({ entries }) => entries.length > 0)
      .map((set) => ({
        name: words.set(set),
        entries: set.entries.length,
        // A set of nf_tables has no limit.
        ...(MODES[kernel.mode].hasIpsets ? { capacity: set.maxEntries } : {}),
      }));
    const conntrack = await conntrackUse(kernel);
    const objects = {
      virtualServers: ids.length,
      realServers: owners.reduce((sum, id) => sum + (realServers.get(virtualServerKey(id))?.length ?? 0), 0),
      addresses: (await kernel.getBoundAddresses()).length,
      setEntries: sets.reduce((sum, { entries }) => sum + entries, 0),
    };
    const verdict = `${counted(ids.length, words.served)} on node ${this.#node}, ${unserved.length} of them unserved`;
    return {
      ...kernelOnly('KernelStatus', this.#node, verdict),
      mode: kernel.mode,
      objects,
      sets,
      unserved: { count: unserved.length, first: unserved.slice(0, MOST_LISTED).map(formatVirtualServer) },
      ...(conntrack === undefined ? {} : { conntrack }),
    };
  }

  /** @param at "10.96.0.1:80", with an optional protocol. Throws a QuestionError if it is not valid. */
  async address(at: string): Promise<AddressOwnerReply> {
    const asked = askedAddress(at);
    const kernel = this.#kernel;
    const ids = await kernel.getVirtualServers();
    return kernelAddressReply(this.#node, asked, {
      ids,
      realServers: await findServing(kernel, ids),
      sets: await kernel.getSets(),
      addresses: new Set((await kernel.getBoundAddresses()).map(({ address }) => address)),
      words: wordsOf(kernel.mode),
    });
  }

  /** Each virtual server has a row of its own. Throws a QuestionError in nftables mode. */
  async traffic(by: TrafficBy): Promise<TrafficReply> {
    requireCounters(this.#kernel.mode, false);
    const parts = { node: this.#node, by, kernel: this.#kernel, clock: this.#clock };
    const reply = await trafficReply({ ...parts, ownerOf: () => undefined });
    return { ...reply, ...kernelOnly('Traffic', this.#node, reply.verdict) };
  }
}
