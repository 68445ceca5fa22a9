import type { ProxyConfig } from '../../config/proxy-config.ts';
import type { NodeModel } from '../../model/node.ts';
import { nodeIps } from '../../model/node.ts';
import { formatCidr } from '../../base/cidr.ts';
import { type IpAddress, formatIp } from '../../base/ip.ts';
import type { Log } from '../../observe/log.ts';

export interface NodeChangesOptions {
  readonly config: Pick<ProxyConfig, 'detectLocalMode' | 'nodeIpOverride'>;
  /** Our Node at start, from which the plan configuration was computed. */
  readonly atStart: NodeModel | undefined;
  readonly log: Log;
  /** Stops the daemon; its supervisor restarts it. */
  readonly end: () => void;
}

/** Watches the fields of our Node that were read at start: its addresses and, in NodeCIDR mode, its pod CIDRs. */
export class NodeChanges {
  readonly #options: NodeChangesOptions;
  readonly #podCidrs: string;
  #addresses: string;

  constructor(options: NodeChangesOptions) {
    this.#options = options;
    this.#podCidrs = podCidrs(options.atStart);
    this.#addresses = this.#nodeIps(options.atStart);
  }

  seen(node: NodeModel): void {
    const { config, log, end } = this.#options;
    const now = podCidrs(node);
    if (config.detectLocalMode === 'NodeCIDR' && now !== this.#podCidrs) {
      log.error('pod CIDRs of our Node changed: exiting, so that a restart uses the new ones', {
        before: this.#podCidrs,
        now,
      });
      end();
    }
    const addresses = this.#nodeIps(node);
    if (addresses === this.#addresses) return;
    log.info('addresses of our Node changed', { before: this.#addresses, now: addresses });
    this.#addresses = addresses;
  }

  deleted(): void {
    this.#options.log.warn('our Node object was deleted: continuing with its last known state');
  }

  #nodeIps(node: NodeModel | undefined): string {
    const own: readonly IpAddress[] = nodeIps(node?.reportedAddresses ?? [], this.#options.config.nodeIpOverride);
    return own.map(formatIp).join(' ');
  }
}

function podCidrs(node: NodeModel | undefined): string {
  return (node?.podCidrs ?? []).map(formatCidr).join(' ');
}
