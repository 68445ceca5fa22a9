import { errorText } from '../../base/text/error-text.ts';
import { doublingDelay } from '../../base/timer.ts';
import { counted } from '../../base/text/counted.ts';
import { IP_FAMILIES, type IpFamily } from '../../base/ip.ts';
import type { Kernel } from '../../kernel/kernel.ts';
import { NodeKernel } from '../../kernel/linux/node-kernel.ts';
import type { Log } from '../../observe/log/log.ts';
import { rulesToRemove, withoutLocalAddressRules } from '../../plan/ipvs/plan-rules.ts';
import type { RuleSet } from '../../state/rules/rule-set.ts';
import { removeOwn } from './remove-own.ts';
import { type InUse, removeIdle } from './ipvs-in-use.ts';
import type { ModeParts } from './mode.ts';

/** Milliseconds between two checks of the connections; doubled after each check that removed nothing. */
const CHECK_MS = 5_000;
const LONGEST_CHECK_MS = 60_000;
/** Longest delay after a failure: rules of another program may keep a set in use for hours. */
const LONGEST_RETRY_MS = 600_000;

export interface RetiringOptions {
  /** Whether all rules but those of local addresses are gone. */
  readonly rulesAreGone?: boolean;
  /** Returns the kernel of ipvs mode; for tests. */
  readonly open?: (parts: ModeParts) => Promise<Kernel | undefined>;
}

/**
 * Removes what ipvs mode left, after a change of mode and when its rules are gone: each virtual server and address when its
 * last connection has ended, and everything else with the last one. New connections are translated before IPVS sees them, so
 * the connections of a virtual server only become fewer. kube-ipvs0 is last: a restart of this program continues as long as it
 * exists.
 */
export class RetiringIpvs {
  readonly #parts: ModeParts;
  readonly #rulesOf: (family: IpFamily) => RuleSet;
  readonly #open: (parts: ModeParts) => Promise<Kernel | undefined>;
  #timer: NodeJS.Timeout | undefined;
  #kernel: Kernel | undefined;
  #stopped = false;
  #hasRules: boolean;
  #since: number | undefined;
  #left: InUse | undefined;
  #idlePasses = 0;
  #failures = 0;

  /** @param rulesOf returns the rules of ipvs mode to remove */
  constructor(parts: ModeParts, rulesOf: (family: IpFamily) => RuleSet, options: RetiringOptions = {}) {
    const { rulesAreGone = false, open = openOldKernel } = options;
    this.#parts = parts;
    this.#rulesOf = rulesOf;
    this.#hasRules = !rulesAreGone;
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
    const { log, knownLeftovers } = this.#parts;
    let delayMs: number;
    try {
      if (await this.#removeIdle()) return knownLeftovers.remove('ipvs mode');
      this.#failures = 0;
      delayMs = doublingDelay(this.#idlePasses, LONGEST_CHECK_MS, CHECK_MS);
    } catch (error) {
      if (this.#stopped) return;
      delayMs = doublingDelay(++this.#failures, LONGEST_RETRY_MS, CHECK_MS);
      knownLeftovers.set('ipvs mode', errorText(error));
      log.warn(`failed to remove what ipvs mode left, next attempt in ${delayMs / 1_000} s: ${errorText(error)}`);
    }
    if (this.#stopped) return;
    this.#timer = setTimeout(() => void this.#pass(), Math.min(delayMs, this.#untilOverdueMs() ?? delayMs));
    this.#timer.unref();
  }

  /** Returns whether nothing is left. */
  async #removeIdle(): Promise<boolean> {
    const { config, log, knownLeftovers } = this.#parts;
    const kernel = (this.#kernel ??= await this.#open(this.#parts));
    if (kernel === undefined) return true;
    this.#since ??= performance.now();
    // Nothing writes them again, and reading them takes long on a large node.
    if (this.#hasRules) {
      for (const family of IP_FAMILIES) await kernel.removeRules(withoutLocalAddressRules(this.#rulesOf(family)));
    }
    this.#hasRules = false;
    if (this.#untilOverdueMs() === 0) return await this.#removeRest(kernel);
    const left = await removeIdle(kernel, config.excludeCidrs);
    if (left.virtualServers + left.addresses === 0) return await this.#removeRest(kernel);
    const isSame = left.virtualServers === this.#left?.virtualServers && left.addresses === this.#left.addresses;
    this.#idlePasses = isSame ? this.#idlePasses + 1 : 1;
    if (!isSame) {
      log.info(
        'ipvs mode is being retired: new connections no longer reach it, those of IPVS continue until they end',
        { virtualServersWithConnections: left.virtualServers, addressesInUse: left.addresses },
      );
    }
    this.#left = left;
    const servers = counted(left.virtualServers, 'virtual server');
    const addresses = counted(left.addresses, 'address', 'addresses');
    knownLeftovers.set('ipvs mode', `${servers} with connections, ${addresses} in use`);
    return false;
  }

  /** Undefined without a drain timeout. */
  #untilOverdueMs(): number | undefined {
    const { drainTimeout } = this.#parts.config;
    if (drainTimeout <= 0 || this.#since === undefined) return undefined;
    return Math.max(0, this.#since + drainTimeout - performance.now());
  }

  async #removeRest(kernel: Kernel): Promise<boolean> {
    const { config, log } = this.#parts;
    if ((await removeOwn(kernel, config, log, this.#rulesOf)) > 0) throw new Error('see the errors above');
    await kernel.removeDevice();
    await kernel.close();
    log.info('removed the last objects of ipvs mode');
    return true;
  }
}

/** Returns the kernel of ipvs mode if this node has kube-ipvs0, which that mode creates first and removes last. */
async function openOldKernel({ log, onProgram }: ModeParts): Promise<Kernel | undefined> {
  if (!(await hasDevice(log))) return undefined;
  const { createIpvsKernel } = await import('../../kernel/ipvs/ipvs-kernel.ts');
  return createIpvsKernel({ log, onProgram });
}

/** Returns the chains of ipvs mode that can be removed now, as "table/chain": some stay as long as kube-ipvs0 exists. */
export async function chainsOfIpvs(log: Log): Promise<ReadonlySet<string>> {
  const all = rulesToRemove(4);
  const { chains } = (await hasDevice(log)) ? withoutLocalAddressRules(all) : all;
  return new Set(chains.map(({ table, name }) => `${table}/${name}`));
}

/** Whether this node has kube-ipvs0. Reads without loading a module. */
async function hasDevice(log: Log): Promise<boolean> {
  const node = new NodeKernel({ log });
  try {
    return (await node.device().index()) !== undefined;
  } finally {
    node.close();
  }
}
