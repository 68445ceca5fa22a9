/** The number of iptables rules by table. */
export type RuleCounts = Readonly<Record<'nat' | 'filter', number>>;
