import type { Reconciler } from './reconciler.ts';

/** The component that answers the subcommands: a reconciler or, in a dry run, a shadow. */
export type Questioned = Pick<Reconciler, 'plan' | 'started' | 'syncing' | 'standing' | 'answers'>;
