import { describe, expect, test } from '@jest/globals';
import type { Failure } from '../../../../src/kube/api/failure.ts';
import { nextState } from '../../../../src/kube/api/reflector-state.ts';
import type { ListPlan, ReflectorInput, ReflectorState } from '../../../../src/kube/api/reflector-state.ts';

const STREAM: ListPlan = { how: 'stream', from: 'cache', selector: 0 };
const PAGES: ListPlan = { how: 'pages', from: 'cache', selector: 0 };
const LATEST: ListPlan = { how: 'pages', from: 'latest', selector: 0 };

function listing(plan: ListPlan, failures = 0): ReflectorState {
  return { name: 'listing', plan, failures };
}

function watching(failures = 0, doubtful = false): ReflectorState {
  return { name: 'watching', plan: PAGES, resourceVersion: '7', doubtful, failures };
}

function fail(kind: Failure['kind'], healthy = false, opened = false): ReflectorInput {
  return { type: 'ended', failure: { kind, message: kind }, healthy, opened, early: true };
}

const END_AT_ONCE: ReflectorInput = { type: 'ended', healthy: false, opened: true, early: true };
const END_IN_TIME: ReflectorInput = { type: 'ended', healthy: true, opened: true, early: false };

describe('step', () => {
  test.each<[string, ReflectorState, ReflectorInput, Partial<ReflectorState>]>([
    ['a list leads to a watch', listing(PAGES, 2), { type: 'listed', resourceVersion: '7' }, watching(2)],
    ['a refused stream becomes pages at once', listing(STREAM), fail('refused'), listing(PAGES)],
    [
      'a server that cannot stream is asked for pages at once',
      listing(STREAM),
      fail('unstreamable', false, true),
      listing(PAGES),
    ],
    ['one that is known not to stream is not asked for it', listing(STREAM), { type: 'no-stream' }, listing(PAGES)],
    ['refused pages try the next selector', listing(PAGES), fail('refused'), listing({ ...PAGES, selector: 1 })],
    ['an expired list begins again with the latest', listing(PAGES), fail('expired'), listing(LATEST, 1)],
    [
      'progress moves the watch on',
      watching(),
      { type: 'progress', resourceVersion: '8' },
      { ...watching(), resourceVersion: '8' } as ReflectorState,
    ],
    ['a watch that ends in its time is resumed', watching(3), END_IN_TIME, watching(0)],
    [
      'a watch that the server ends early is resumed with a doubt',
      watching(3),
      { ...END_IN_TIME, early: true },
      watching(0, true),
    ],
    ['a doubt that is cleared', watching(3, true), { type: 'confirmed' }, watching(3)],
    ['a doubt that was right', watching(3, true), { type: 'rewound' }, listing(LATEST, 3)],
    ['an expired watch becomes a list at once', watching(), fail('expired', true), listing(LATEST, 1)],
    ['an input that does not fit changes nothing', watching(), { type: 'waited' }, watching()],
  ])('%s', (_name, before, input, after) => {
    expect(nextState(before, input, 2)).toEqual(after);
  });

  test.each<[string, ReflectorState, ReflectorInput, ReflectorState]>([
    [
      'refused by every selector',
      listing({ ...PAGES, selector: 1 }),
      fail('refused'),
      listing({ ...PAGES, selector: 1 }, 1),
    ],
    ['expired again', listing(LATEST, 1), fail('expired'), listing(LATEST, 2)],
    ['a server that is away is asked for a stream again', listing(STREAM), fail('unavailable'), listing(STREAM, 1)],
    ['a stream that broke becomes pages', listing(STREAM), fail('unavailable', false, true), listing(PAGES, 1)],
    ['a watch that broke is resumed', watching(1), fail('unavailable'), watching(2, true)],
    ['a healthy watch that broke counts as the first failure', watching(5), fail('garbled', true), watching(1, true)],
    ['a watch that ends at once is a failure', watching(), END_AT_ONCE, watching(1, true)],
    ['a watch that is refused becomes a list', watching(), fail('refused'), listing(LATEST, 1)],
    ['a watch that always expires', watching(1), fail('expired'), listing(LATEST, 2)],
    ['no permission', watching(), fail('forbidden'), watching(1, true)],
  ])('after a wait: %s', (_name, before, input, next) => {
    const waiting = nextState(before, input, 2);
    expect(waiting).toMatchObject({ name: 'waiting', next });
    expect(nextState(waiting, { type: 'waited' }, 2)).toEqual(next);
  });
});
