import type { Cidr } from '../../base/cidr.ts';
import type { Port } from '../../base/port.ts';

/** How to recognize packets from pods of this node, for one family. */
export type LocalDetector =
  | { readonly kind: 'cidr'; readonly cidr: Cidr }
  | { readonly kind: 'bridge'; readonly interfaceName: string }
  | { readonly kind: 'interface-prefix'; readonly prefix: string };

/** What the rules of one family depend on. */
export interface RuleSettings {
  readonly masqueradeAll: boolean;
  /** The packet mark that requests masquerading: 1 << masqueradeBit. */
  readonly masqueradeMark: number;
  readonly localDetector?: LocalDetector | undefined;
  /** The source port range for masquerading, if it must avoid node ports. */
  readonly masqueradePorts?: { readonly from: Port; readonly to: Port } | undefined;
  /** Whether masquerading selects source ports at random. */
  readonly randomFully: boolean;
  /** Whether packets are forwarded that connection tracking calls invalid; only iptables mode drops them. */
  readonly forwardsInvalid?: boolean;
}
