/** How Services are programmed (docs/modes.md). */
export type ProxyMode = 'ipvs' | 'nftables' | 'iptables';
