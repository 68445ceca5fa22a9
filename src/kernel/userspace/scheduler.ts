/** The ways in which the engine chooses endpoints, by the names of the schedulers of IPVS that choose alike. */
const SCHEDULERS = ['rr', 'wrr', 'lc', 'wlc'] as const;
export type Scheduler = (typeof SCHEDULERS)[number];

export function isScheduler(name: string): name is Scheduler {
  return (SCHEDULERS as readonly string[]).includes(name);
}
