import type { ProxyConfig } from '../../config/proxy-config.ts';
import type { NodeModel } from '../../model/node.ts';
import { nodeIps } from '../../model/node.ts';
import { formatCidr } from '../../base/cidr.ts';
import { type IpFamily, formatIp } from '../../base/ip.ts';
import type { Log } from '../../observe/log/log.ts';
import { crossChecks } from '../startup/cross-checks.ts';

export interface NodeChangesOptions {
  readonly config: ProxyConfig;
  readonly log: Log;
  /** Stops the daemon; its supervisor restarts it. */
  readonly end: () => void;
}

interface Known {
  /** The families that this host can serve. */
  readonly families: readonly IpFamily[];
  readonly podCidrs: string;
  readonly addresses: string;
  /** The warnings that were logged. */
  readonly warnings: readonly string[];
}

/**
 * Watches the fields of our Node whose changes need more than a new plan. The daemon follows new addresses, but exits
 * if they contradict its configuration, or, in NodeCIDR mode, if the pod CIDRs change: the iptables rules contain
 * these.
 */
export class NodeChanges {
  readonly #options: NodeChangesOptions;
  #known: Known | undefined;

  constructor(options: NodeChangesOptions) {
    this.#options = options;
  }

  /** Must be called with the Node with which the configuration was checked at start. Earlier changes are ignored. */
  begin(families: readonly IpFamily[], node: NodeModel | undefined): void {
    const { warnings } = crossChecks(this.#options.config, families, node);
    this.#known = { families, warnings, ...this.#read(node) };
  }

  seen(node: NodeModel): void {
    const before = this.#known;
    if (before === undefined) return;
    const { config, log, end } = this.#options;
    const now = this.#read(node);
    const isMoved = now.addresses !== before.addresses;
    const hasOtherPods = now.podCidrs !== before.podCidrs;
    if (!isMoved && !hasOtherPods) return;
    if (isMoved) log.info('addresses of our Node changed', { before: before.addresses, now: now.addresses });
    const { warnings, fatal } = crossChecks(config, before.families, node);
    this.#known = { families: before.families, warnings, ...now };
    if (config.detectLocalMode === 'NodeCIDR' && hasOtherPods) {
      log.error('pod CIDRs of our Node changed: exiting, so that a restart uses the new ones', {
        before: before.podCidrs,
        now: now.podCidrs,
      });
      end();
    } else if (fatal.length > 0) {
      log.error(`our Node has changed, and the configuration no longer fits it: exiting: ${fatal.join('; ')}`);
      end();
    } else {
      for (const warning of warnings) if (!before.warnings.includes(warning)) log.warn(warning);
    }
  }

  deleted(): void {
    if (this.#known === undefined) return;
    this.#options.log.warn('our Node object was deleted: continuing with its last known state');
  }

  #read(node: NodeModel | undefined): Pick<Known, 'podCidrs' | 'addresses'> {
    return {
      podCidrs: (node?.podCidrs ?? []).map(formatCidr).join(' '),
      addresses: nodeIps(node?.reportedAddresses ?? [], this.#options.config.nodeIpOverride)
        .map(formatIp)
        .join(' '),
    };
  }
}
