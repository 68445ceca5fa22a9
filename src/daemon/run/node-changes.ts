import type { ProxyConfig } from '../../config/proxy-config.ts';
import type { NodeModel } from '../../model/node.ts';
import { nodeIps } from '../../model/node.ts';
import { formatCidr } from '../../base/cidr.ts';
import { type IpFamily, formatIp } from '../../base/ip.ts';
import type { Log } from '../../observe/log.ts';
import { crossChecks } from '../startup/cross-checks.ts';

export interface NodeChangesOptions {
  readonly config: ProxyConfig;
  /** The families that this host can serve. */
  readonly families: readonly IpFamily[];
  /** Our Node at start, with which the configuration was checked. */
  readonly atStart: NodeModel | undefined;
  readonly log: Log;
  /** Stops the daemon; its supervisor restarts it. */
  readonly end: () => void;
}

/**
 * Watches the fields of our Node for which plans alone are not enough. The daemon follows new addresses, but ends if they
 * contradict its configuration, or, in NodeCIDR mode, if the pod CIDRs change: the iptables rules contain these.
 */
export class NodeChanges {
  readonly #options: NodeChangesOptions;
  #podCidrs: string;
  #addresses: string;
  /** The warnings that were logged. */
  #warnings: ReadonlySet<string>;

  constructor(options: NodeChangesOptions) {
    this.#options = options;
    this.#podCidrs = podCidrs(options.atStart);
    this.#addresses = this.#nodeIps(options.atStart);
    this.#warnings = new Set(crossChecks(options.config, options.families, options.atStart).warnings);
  }

  seen(node: NodeModel): void {
    const { config, log, end } = this.#options;
    const [before, now] = [this.#podCidrs, podCidrs(node)];
    const [oldAddresses, addresses] = [this.#addresses, this.#nodeIps(node)];
    this.#podCidrs = now;
    this.#addresses = addresses;
    if (config.detectLocalMode === 'NodeCIDR' && now !== before) {
      log.error('pod CIDRs of our Node changed: exiting, so that a restart uses the new ones', { before, now });
      end();
      return;
    }
    if (addresses !== oldAddresses) {
      log.info('addresses of our Node changed', { before: oldAddresses, now: addresses });
    }
    if (addresses !== oldAddresses || now !== before) this.#check(node);
  }

  deleted(): void {
    this.#options.log.warn('our Node object was deleted: continuing with its last known state');
  }

  #check(node: NodeModel): void {
    const { config, families, log, end } = this.#options;
    const { warnings, fatal } = crossChecks(config, families, node);
    for (const warning of warnings) if (!this.#warnings.has(warning)) log.warn(warning);
    this.#warnings = new Set(warnings);
    if (fatal.length === 0) return;
    log.error(`our Node has changed, and the configuration no longer fits it: exiting: ${fatal.join('; ')}`);
    end();
  }

  #nodeIps(node: NodeModel | undefined): string {
    return nodeIps(node?.reportedAddresses ?? [], this.#options.config.nodeIpOverride)
      .map(formatIp)
      .join(' ');
  }
}

function podCidrs(node: NodeModel | undefined): string {
  return (node?.podCidrs ?? []).map(formatCidr).join(' ');
}
