import { expect, test } from '@jest/globals';
import { type Candidate, EndpointChoice } from '../../../src/userspace/endpoint-choice.ts';
import type { EngineScheduler } from '../../../src/userspace/engine-update.ts';

interface Named extends Candidate {
  readonly name: string;
}

const endpoint = (name: string, weight: number, active = 0): Named => ({ name, weight, active });

/** The names that are chosen, one after the other. No connection is added. */
function chosen(scheduler: EngineScheduler, candidates: readonly Named[], count: number): string {
  const choice = new EndpointChoice<Named>(0);
  return Array.from({ length: count }, () => choice.choose(scheduler, candidates, () => true)?.name ?? '-').join('');
}

test.each<[EngineScheduler, readonly Named[], string]>([
  ['rr', [endpoint('a', 9), endpoint('b', 0), endpoint('c', 1)], 'acacac'],
  // Smooth: the heavy one is not chosen five times in a row.
  ['wrr', [endpoint('a', 5), endpoint('b', 1), endpoint('c', 1)], 'aabacaa'],
  ['wrr', [endpoint('a', 0), endpoint('b', 2)], 'bbb'],
  ['lc', [endpoint('a', 9, 3), endpoint('b', 1, 2), endpoint('c', 1, 2)], 'bcbc'],
  ['wlc', [endpoint('a', 9, 3), endpoint('b', 1, 2), endpoint('c', 3, 1)], 'acac'],
  ['wlc', [endpoint('a', 2, 4), endpoint('b', 0, 0), endpoint('c', 1, 3)], 'aa'],
  ['lc', [endpoint('a', 0), endpoint('b', 0)], '--'],
])('%s of %j', (scheduler, candidates, wanted) => {
  expect(chosen(scheduler, candidates, wanted.length)).toBe(wanted);
});

test('least connections by weight: the connections follow the weights', () => {
  const choice = new EndpointChoice<{ name: string; weight: number; active: number }>(7);
  const candidates = [
    { name: 'a', weight: 3, active: 0 },
    { name: 'b', weight: 1, active: 0 },
  ];
  for (let connection = 0; connection < 400; connection++) choice.choose('wlc', candidates, () => true)!.active += 1;
  expect(candidates.map(({ active }) => active)).toEqual([300, 100]);
});

test('least connections: which endpoints are allowed is asked of better ones only', () => {
  const candidates = Array.from({ length: 1_000 }, (_, index) => endpoint(String(index), 1, 1));
  let asked = 0;
  const choice = new EndpointChoice<Named>(0);
  expect(choice.choose('lc', candidates, () => ++asked > 0)?.name).toBe('0');
  expect(asked).toBe(1);
});

test('an endpoint that has left does not change the turns of those that stay', () => {
  const choice = new EndpointChoice<Named>(0);
  const [a, b] = [endpoint('a', 1), endpoint('b', 1)];
  expect(choice.choose('wrr', [a, b], () => true)).toBe(a);
  choice.forget(a);
  const again = endpoint('a', 1);
  expect(choice.choose('wrr', [b, again], () => true)).toBe(b);
  expect(choice.choose('wrr', [b, again], () => true)).toBe(again);
});
