import type { TrialContext } from './context.ts';
import type { EndpointWatch } from './endpoint-watch.ts';

/** How long after the event of the EndpointSlice new connections may still go to servers that are not ready any more. */
export const ELSEWHERE_MS = 2000;
/** Clients count by the second. */
const TICK_MS = 1000;

export interface ServersOfNode {
  readonly node: string;
  readonly pods: readonly string[];
}

/** The ready servers of a node. Throws if it has none. */
export async function serversOn(context: TrialContext, node: string): Promise<ServersOfNode> {
  const pods = (await context.endpoints()).filter((each) => each.node === node && each.ready).map(({ pod }) => pod);
  if (pods.length === 0) throw new Error(`no server is ready on ${node}`);
  return { node, pods };
}

/** Waits until the EndpointSlice has none of these servers as ready. Returns the time of the event. */
export async function awaitGone(
  context: TrialContext,
  watch: EndpointWatch,
  { node, pods }: ServersOfNode,
  after: number,
  seconds: number,
): Promise<number> {
  await context.until(`no server of ${node} is ready`, seconds, () => watch.goneAt(pods, after) !== undefined);
  const gone = watch.goneAt(pods, after) ?? 0;
  context.measure(`from the step to the event that no server of ${node} is ready`, `${(gone - after) / 1000} s`);
  return gone;
}

/**
 * Checks that no new connection is answered by these servers from 2 s after the event until now. `except` are targets
 * that have no other servers.
 */
export function checkElsewhere(
  context: TrialContext,
  { node, pods }: ServersOfNode,
  gone: number,
  except: (target: string) => boolean = () => false,
): void {
  const late = Object.values(context.traffic.ticks())
    .flat()
    .filter(({ at, servers }) => at > gone && pods.some((pod) => servers[pod]?.some((target) => !except(target))));
  const last = Math.max(0, ...late.map(({ at }) => at - gone));
  context.measure(`from the event to the second in which ${node} answered last`, `${last / 1000} s`);
  context.check(
    `new connections go to other nodes than ${node} within 2 s of the event`,
    last <= ELSEWHERE_MS + TICK_MS,
  );
}

/** Waits until servers of the node are ready and answer new connections of both clients. */
export async function awaitServing(context: TrialContext, node: string, seconds: number): Promise<void> {
  const took = await context.until(`servers on ${node} answer new connections again`, seconds, async () => {
    const endpoints = (await context.endpoints()).filter((each) => each.node === node && each.ready);
    const names = new Set(endpoints.map(({ pod }) => pod));
    const lasts = Object.values(context.traffic.ticks()).map((ticks) => ticks.at(-1)?.servers ?? {});
    return lasts.every((servers) => Object.keys(servers).some((pod) => names.has(pod)));
  });
  context.measure(`until servers on ${node} answer again`, `${took} s`);
}
