import { unreachable } from '../net/unreachable.ts';
import type { Failure } from './failure.ts';

/** How the whole state is asked for. Servers differ, so what one refuses is not asked again. */
export interface ListPlan {
  /** stream: a watch that begins with all objects (WatchList, KEP-3157); pages: lists with limit and continue. */
  readonly how: 'stream' | 'pages';
  /** cache: whatever state the server has at hand; latest: what is newest, read from etcd. */
  readonly from: 'cache' | 'latest';
  /** Which of the resource's selectors. */
  readonly selector: number;
}

export interface Listing {
  readonly name: 'listing';
  readonly plan: ListPlan;
  readonly failures: number;
}

export interface Watching {
  readonly name: 'watching';
  readonly plan: ListPlan;
  /** Where the watch goes on. */
  readonly resourceVersion: string;
  readonly failures: number;
}

/** Before a new attempt; `next.failures` says how often in a row it has failed. */
export interface Waiting {
  readonly name: 'waiting';
  readonly next: Listing | Watching;
  readonly failure: Failure;
}

export type ReflectorState = Listing | Watching | Waiting;

export type ReflectorInput =
  | { readonly type: 'listed'; readonly resourceVersion: string }
  | { readonly type: 'progress'; readonly resourceVersion: string }
  /**
   * A list or a watch is over. No failure: the server ended a watch in good order. healthy: it had lasted a while. opened: the
   * server had agreed to watch.
   */
  | { readonly type: 'ended'; readonly failure?: Failure; readonly healthy: boolean; readonly opened: boolean }
  | { readonly type: 'waited' };

/** The list that replaces what has expired. Pages, because a stream may be served from the very cache that was too old. */
function relist(plan: ListPlan, failures: number): Listing {
  return { name: 'listing', plan: { ...plan, how: 'pages', from: 'latest' }, failures };
}

function listFailed(state: Listing, failure: Failure, opened: boolean, selectors: number): ReflectorState {
  const { plan, failures } = state;
  if (failure.kind === 'refused') {
    if (plan.how === 'stream') return { ...state, plan: { ...plan, how: 'pages' } };
    if (plan.selector + 1 < selectors) return { ...state, plan: { ...plan, selector: plan.selector + 1 } };
  }
  if (failure.kind === 'expired') {
    const next = relist(plan, failures + 1);
    return failures === 0 ? next : { name: 'waiting', next, failure };
  }
  // A server that agreed to stream its state and did not do it may not know how; pages work everywhere.
  const how = opened ? 'pages' : plan.how;
  return { name: 'waiting', next: { ...state, plan: { ...plan, how }, failures: failures + 1 }, failure };
}

function watchEnded(state: Watching, failure: Failure | undefined, healthy: boolean): ReflectorState {
  if (failure === undefined && healthy) return { ...state, failures: 0 };
  const failures = (healthy ? 0 : state.failures) + 1;
  const reason: Failure = failure ?? { kind: 'unavailable', message: 'the server ended the watch at once' };
  if (reason.kind === 'expired') {
    const next = relist(state.plan, failures);
    return failures === 1 ? next : { name: 'waiting', next, failure: reason };
  }
  // A watch that is refused was asked from a version that this server does not understand.
  const next = reason.kind === 'refused' ? relist(state.plan, failures) : { ...state, failures };
  return { name: 'waiting', next, failure: reason };
}

/** What follows. `selectors` is how many the resource has to fall back on. An input that does not fit the state changes nothing. */
export function step(state: ReflectorState, input: ReflectorInput, selectors: number): ReflectorState {
  switch (state.name) {
    case 'listing':
      if (input.type === 'listed') return { ...state, name: 'watching', resourceVersion: input.resourceVersion };
      if (input.type !== 'ended') return state;
      return listFailed(
        state,
        input.failure ?? { kind: 'unavailable', message: 'the server ended the list before it was complete' },
        input.opened,
        selectors,
      );
    case 'watching':
      if (input.type === 'progress') return { ...state, resourceVersion: input.resourceVersion };
      return input.type === 'ended' ? watchEnded(state, input.failure, input.healthy) : state;
    case 'waiting':
      return input.type === 'waited' ? state.next : state;
    default:
      return unreachable(state);
  }
}
