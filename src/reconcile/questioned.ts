import type { FoundDifference } from '../explain/difference/difference-reply.ts';
import type { Reconciler } from './reconciler.ts';

/** What the subcommands ask: a reconciler or, in a dry run, a shadow. */
export type Questioned = Pick<
  Reconciler,
  | 'plan'
  | 'started'
  | 'syncing'
  | 'standing'
  | 'differingSettings'
  | 'forwardingNotes'
  | 'explainService'
  | 'explainAddress'
  | 'explainPacket'
> & {
  difference(signal: AbortSignal): Promise<FoundDifference>;
};
