import { start, stop } from '../control.ts';
import type { TrialContext } from './context.ts';

const MANAGER = 'kube-controller-manager';
const SERVER = 'kube-apiserver';

/** How an API server goes away. */
interface Absence {
  readonly seconds: number;
  readonly signal?: 'TERM' | 'KILL';
  /** What is done before it starts again. */
  readonly before?: () => Promise<void>;
}

/**
 * Stops the API server for a time. The controller manager is away with it, until every node has reported again: it would
 * declare that nodes are not ready which could not report, and all their endpoints with them.
 *
 * @returns when the API server was ready again: milliseconds since 1970
 */
export async function apiServerAway(context: TrialContext, { seconds, signal, before }: Absence): Promise<number> {
  const { state } = context;
  await stop(state, MANAGER);
  await stop(state, SERVER, signal);
  await context.wait(seconds);
  await before?.();
  await start(state, SERVER);
  const ready = Date.now();
  await context.until('every node has reported', 120, async () => {
    const times = await context.kubectl([
      '--namespace=kube-node-lease',
      'get',
      'leases',
      '--output=jsonpath={.items[*].spec.renewTime}',
    ]);
    return times.split(' ').every((time) => Date.parse(time) > ready);
  });
  await start(state, MANAGER);
  return ready;
}
