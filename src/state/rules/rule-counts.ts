export type RuleCounts = Readonly<Record<'nat' | 'filter', number>>;
