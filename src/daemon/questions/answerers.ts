import { differenceReply } from '../../explain/difference-reply.ts';
import { ownersIn } from '../../explain/op-owner.ts';
import type { Reconciler } from '../../reconcile/reconciler.ts';
import type { Answerer } from './question-handler.ts';
import { QuestionError } from './question-error.ts';

export interface AnswererOptions {
  readonly node: string;
  /** Undefined while the daemon starts. */
  readonly reconciler: () => Reconciler | undefined;
}

/** Returns what the query socket answers, by path. */
export function answerers({ node, reconciler }: AnswererOptions): Readonly<Record<string, Answerer>> {
  const started = (): Reconciler => {
    const found = reconciler();
    if (found?.started === true) return found;
    throw new QuestionError(503, 'the daemon has not completed its first sync: nothing is planned yet; see its log');
  };
  return {
    '/v1/diff': async (_query, signal) => {
      const found = started();
      const difference = await found.difference(signal);
      return differenceReply(node, difference, ownersIn(found.plan), found.syncing);
    },
  };
}
