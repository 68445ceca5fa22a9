import { errorText } from '../../base/error-text.ts';
import { IP_FAMILIES, type IpAddress, type IpFamily } from '../../base/ip.ts';
import type { Kernel } from '../../kernel/kernel.ts';
import { NodeKernel } from '../../kernel/linux/node-kernel.ts';
import type { Log } from '../../observe/log.ts';
import type { Op } from '../../state/op.ts';
import type { RuleSet } from '../../state/rule-set.ts';
import { Transaction } from '../../state/transaction.ts';
import { type VirtualServer, virtualServerKey } from '../../state/virtual-server.ts';
import { ownedVirtualServers, removeAll } from '../clean-up.ts';
import type { ModeParts } from './mode.ts';

/** Interval between two looks at the connections. */
const CHECK_MS = 5_000;

/** What must go on while IPVS has connections. */
type OldKernel = Pick<Kernel, 'apply' | 'getRealServers'> & Parameters<typeof ownedVirtualServers>[0];

/**
 * Removes what ipvs mode left, after a change of mode and when its rules are gone: each virtual server when its last
 * connection has ended, and everything else with the last one. New connections are translated before IPVS sees them, so the
 * connections of a virtual server only become fewer. A restart of this program continues.
 */
export class RetiringIpvs {
  readonly #parts: ModeParts;
  readonly #rulesOf: ((family: IpFamily) => RuleSet) | undefined;
  readonly #open: (parts: ModeParts) => Promise<Kernel | undefined>;
  #timer: NodeJS.Timeout | undefined;
  #kernel: Kernel | undefined;
  #stopped = false;
  #hasRules = true;
  #since: number | undefined;
  #reported = 0;

  /**
   * @param rulesOf what is removed of the rules of ipvs mode; undefined if all are gone
   * @param open returns the kernel of ipvs mode; for tests
   */
  constructor(parts: ModeParts, rulesOf?: (family: IpFamily) => RuleSet, open = openOldKernel) {
    this.#parts = parts;
    this.#rulesOf = rulesOf;
    this.#open = open;
  }

  start(): void {
    if (!this.#stopped) void this.#pass();
  }

  stop(): void {
    this.#stopped = true;
    clearTimeout(this.#timer);
    void this.#kernel?.close();
  }

  async #pass(): Promise<void> {
    const { log } = this.#parts;
    try {
      if (await this.#removeIdle()) return;
    } catch (error) {
      if (this.#stopped) return;
      log.warn(`failed to remove what ipvs mode left, next attempt in ${CHECK_MS / 1_000} s: ${errorText(error)}`);
    }
    if (this.#stopped) return;
    this.#timer = setTimeout(() => void this.#pass(), CHECK_MS);
    this.#timer.unref();
  }

  /** Returns whether nothing is left. */
  async #removeIdle(): Promise<boolean> {
    const { config, log } = this.#parts;
    const kernel = (this.#kernel ??= await this.#open(this.#parts));
    if (kernel === undefined) return true;
    this.#since ??= performance.now();
    // Nothing writes them again, and reading them takes long on a large node.
    if (this.#hasRules && this.#rulesOf !== undefined) {
      for (const family of IP_FAMILIES) await kernel.removeRules(this.#rulesOf(family));
    }
    this.#hasRules = false;
    const overdue = config.drainTimeout > 0 && performance.now() - this.#since >= config.drainTimeout;
    const left = overdue ? 0 : await removeIdleServers(kernel, config.excludeCidrs);
    if (left === 0) return await this.#removeRest(kernel);
    if (left !== this.#reported) {
      log.info(
        'ipvs mode is being retired: new connections no longer reach it, those of IPVS continue until they end',
        {
          virtualServersWithConnections: left,
        },
      );
    }
    this.#reported = left;
    return false;
  }

  async #removeRest(kernel: Kernel): Promise<boolean> {
    const { config, log } = this.#parts;
    const none = { find: () => Promise.resolve([]), remove: () => Promise.resolve() };
    const code = await removeAll(kernel, none, config, log, this.#rulesOf);
    if (code !== 0) throw new Error('see the errors above');
    await kernel.close();
    log.info('ipvs mode is retired: nothing of it is left on this node');
    return true;
  }
}

/** Returns the kernel of ipvs mode if this node has kube-ipvs0, which that mode creates first and removes last. */
async function openOldKernel({ log, onProgram }: ModeParts): Promise<Kernel | undefined> {
  if (!(await hasDevice(log))) return undefined;
  const { createLinuxKernel } = await import('../../kernel/linux/linux-kernel.ts');
  return createLinuxKernel({ log, onProgram });
}

/** Reads without loading a module. */
async function hasDevice(log: Log): Promise<boolean> {
  const node = new NodeKernel({ log });
  try {
    return (await node.device().index()) !== undefined;
  } finally {
    node.close();
  }
}

/** Removes the virtual servers of ours that have no connections. Returns the number of the others. */
export async function removeIdleServers(
  kernel: OldKernel,
  excluded: Parameters<typeof ownedVirtualServers>[1],
): Promise<number> {
  const servers = await ownedVirtualServers(kernel, excluded);
  const realServers = await kernel.getRealServers(servers);
  const isBusy = (id: VirtualServer): boolean =>
    realServers
      .get(virtualServerKey(id))
      ?.some(({ activeConnections, inactiveConnections }) => activeConnections + inactiveConnections > 0) === true;
  const busy = servers.filter(isBusy);
  const needed = new Set<IpAddress>(busy.map(({ address }) => address));
  const bound = await kernel.getBoundAddresses();
  const ops: Op[] = [
    ...bound
      .filter(({ address }) => !needed.has(address))
      .map(({ address }): Op => ({ kind: 'unbind-address', address })),
    ...servers
      .filter((server) => !busy.includes(server))
      .map(({ address, port, protocol }): Op => ({ kind: 'delete-virtual-server', id: { address, port, protocol } })),
  ];
  await kernel.apply(new Transaction(ops));
  return busy.length;
}
