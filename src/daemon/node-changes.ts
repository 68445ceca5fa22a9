import type { ProxyConfig } from '../config/proxy-config.ts';
import type { NodeModel } from '../model/node.ts';
import { nodeIps } from '../model/node.ts';
import { formatCidr } from '../net/cidr.ts';
import { type IpAddress, formatIp } from '../net/ip.ts';
import type { Log } from '../observe/log.ts';

export interface NodeChangesOptions {
  readonly config: Pick<ProxyConfig, 'detectLocalMode' | 'nodeIpOverride'>;
  /** Our Node as it was when the plan was made from it. */
  readonly atStart: NodeModel | undefined;
  readonly log: Log;
  /** Ends the daemon, to be started again. */
  readonly end: () => void;
}

/** Watches our Node for what was settled at start: its pod CIDRs, where local traffic is told by them, and its addresses. */
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
      log.error('the pod CIDRs of our Node were changed: ending, to be started again with the new ones', {
        before: this.#podCidrs,
        now,
      });
      end();
    }
    const addresses = this.#nodeIps(node);
    if (addresses === this.#addresses) return;
    log.info('the addresses of our Node have changed', { before: this.#addresses, now: addresses });
    this.#addresses = addresses;
  }

  deleted(): void {
    this.#options.log.warn('our Node object was deleted: going on with what was known of it');
  }

  #nodeIps(node: NodeModel | undefined): string {
    const own: readonly IpAddress[] = nodeIps(node?.reportedAddresses ?? [], this.#options.config.nodeIpOverride);
    return own.map(formatIp).join(' ');
  }
}

function podCidrs(node: NodeModel | undefined): string {
  return (node?.podCidrs ?? []).map(formatCidr).join(' ');
}
