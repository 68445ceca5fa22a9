import type { Reconciler } from './reconciler.ts';

/** What the subcommands ask: a reconciler or, in a dry run, a shadow. */
export type Questioned = Pick<Reconciler, 'plan' | 'started' | 'syncing' | 'standing' | 'answers'>;
