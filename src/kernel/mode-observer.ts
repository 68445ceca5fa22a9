import type { IpFamily } from '../base/ip.ts';
import type { RuleCounts } from '../state/rules/rule-counts.ts';

/** Receives what happens in one mode only, for kube-proxy's metrics of that mode. */
export interface ModeObserver {
  /**
   * iptables mode: `total` is the number of rules in our chains, `last` that of the rules which the last iptables-restore
   * added.
   */
  rulesCounted(family: IpFamily, total: RuleCounts, last: RuleCounts): void;
  /** iptables mode: iptables-restore refused changes, which are tried again in other parts. */
  partialRestoreFailed(family: IpFamily): void;
  /** nftables mode: chains, sets or elements that nothing uses any more could not be deleted. */
  cleanUpFailed(family: IpFamily): void;
}

const nothing = (): void => undefined;

export const NO_MODE_OBSERVER: ModeObserver = {
  rulesCounted: nothing,
  partialRestoreFailed: nothing,
  cleanUpFailed: nothing,
};
