import type { Failure } from './failure.ts';
import type { WatchEnd } from './watch.ts';

/** How to request all objects. A plan that the server has refused is not tried again. */
export interface ListPlan {
  /** stream: a watch that starts with all objects (WatchList, KEP-3157); pages: lists with limit and continue. */
  readonly how: 'stream' | 'pages';
  /** cache: the server's cached state (resourceVersion=0); latest: a consistent read from etcd. */
  readonly from: 'cache' | 'latest';
  /** Index into the resource's selectors. */
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
  /** The watch resumes after this version. */
  readonly resourceVersion: string;
  /** Whether the server's state may be older than `resourceVersion`. A watch does not show that. */
  readonly doubtful: boolean;
  readonly failures: number;
}

/** Waiting before the next attempt; `next.failures` counts consecutive failures. */
export interface Waiting {
  readonly name: 'waiting';
  readonly next: Listing | Watching;
  readonly failure: Failure;
}

export type ReflectorState = Listing | Watching | Waiting;

export type ReflectorInput =
  | { readonly type: 'listed'; readonly resourceVersion: string }
  | { readonly type: 'progress'; readonly resourceVersion: string }
  /** A list or a watch ended. */
  | ({ readonly type: 'ended' } & WatchEnd)
  /** The server's state is not older than the resourceVersion. */
  | { readonly type: 'confirmed' }
  /** The server's state is older. */
  | { readonly type: 'rewound' }
  | { readonly type: 'waited' }
  /** The server does not support WatchList. */
  | { readonly type: 'no-stream' };

/** Lists again with a new resourceVersion. Uses pages, because a stream may come from the same stale cache. */
function relist(plan: ListPlan, failures: number): Listing {
  return { name: 'listing', plan: { ...plan, how: 'pages', from: 'latest' }, failures };
}

function inPages(state: Listing): Listing {
  return { ...state, plan: { ...state.plan, how: 'pages' } };
}

function listFailed(state: Listing, failure: Failure, opened: boolean, selectors: number): ReflectorState {
  const { plan, failures } = state;
  if (failure.kind === 'refused' || failure.kind === 'unstreamable') {
    if (plan.how === 'stream') return inPages(state);
    if (plan.selector + 1 < selectors) return { ...state, plan: { ...plan, selector: plan.selector + 1 } };
  }
  if (failure.kind === 'expired') {
    const next = relist(plan, failures + 1);
    return failures === 0 ? next : { name: 'waiting', next, failure };
  }
  // If the server accepted the stream but did not complete it, use pages, which all servers support.
  const how = opened ? 'pages' : plan.how;
  return { name: 'waiting', next: { ...state, plan: { ...plan, how }, failures: failures + 1 }, failure };
}

/** If a watch ended before its time, the server may have restarted, with an etcd that was restored from a backup. */
function watchEnded(state: Watching, { failure, healthy, early }: WatchEnd): ReflectorState {
  if (failure === undefined && healthy) return { ...state, doubtful: early, failures: 0 };
  const failures = (healthy ? 0 : state.failures) + 1;
  const reason: Failure = failure ?? { kind: 'unavailable', message: 'the server closed the watch at once' };
  if (reason.kind === 'expired') {
    const next = relist(state.plan, failures);
    return failures === 1 ? next : { name: 'waiting', next, failure: reason };
  }
  // On `refused`, list again: the server does not accept our resourceVersion.
  const next = reason.kind === 'refused' ? relist(state.plan, failures) : { ...state, doubtful: true, failures };
  return { name: 'waiting', next, failure: reason };
}

/** Returns the next state; ignores an input that does not fit. `selectors` is the number of selectors. */
export function nextState(state: ReflectorState, input: ReflectorInput, selectors: number): ReflectorState {
  switch (state.name) {
    case 'listing':
      if (input.type === 'listed') {
        return { ...state, name: 'watching', resourceVersion: input.resourceVersion, doubtful: false };
      }
      if (input.type === 'no-stream') return inPages(state);
      if (input.type !== 'ended') return state;
      return listFailed(
        state,
        input.failure ?? { kind: 'unavailable', message: 'the server closed the stream before the list was complete' },
        input.opened,
        selectors,
      );
    case 'watching':
      if (input.type === 'progress') return { ...state, resourceVersion: input.resourceVersion };
      if (input.type === 'confirmed') return { ...state, doubtful: false };
      if (input.type === 'rewound') return relist(state.plan, state.failures);
      return input.type === 'ended' ? watchEnded(state, input) : state;
    case 'waiting':
      return input.type === 'waited' ? state.next : state;
  }
}
