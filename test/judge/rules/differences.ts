import type { IntendedDifference } from '../compare.ts';

export const NFTABLES_DIFFERENCES: readonly IntendedDifference[] = [];
export const IPTABLES_DIFFERENCES: readonly IntendedDifference[] = [];
