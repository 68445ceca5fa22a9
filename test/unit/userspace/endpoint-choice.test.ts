import { expect, test } from '@jest/globals';
import { ClientAffinity } from '../../../src/userspace/client-affinity.ts';
import { EndpointChoice } from '../../../src/userspace/endpoint-choice.ts';
import type { ChoiceName } from '../../../src/userspace/engine-update.ts';

interface Named {
  readonly name: string;
  readonly weight: number;
  active: number;
}

function named(weights: readonly number[]): Named[] {
  return weights.map((weight, at) => ({ name: 'abcd'.charAt(at), weight, active: 0 }));
}

function choices(name: ChoiceName, candidates: readonly Named[], count: number, start = 0): string {
  const choice = new EndpointChoice<Named>(start);
  return Array.from({ length: count }, () => choice.choose(name, candidates, () => true)?.name ?? '-').join('');
}

test.each([
  ['rr', [1, 1, 1], 'abcabc'],
  ['rr', [1, 0, 5], 'acacac'],
  ['wrr', [3, 1, 0], 'aabaaaba'],
  ['wrr', [1, 1], 'abab'],
  ['rr', [0, 0], '--'],
  ['lc', [], '-'],
] as const)('%s with weights %j chooses %s', (name, weights, wanted) => {
  expect(choices(name, named(weights), wanted.length)).toBe(wanted);
});

test('round robin starts where the node says', () => {
  expect(choices('rr', named([1, 1, 1]), 3, 2)).toBe('cab');
});

test('least connections takes the endpoint with the fewest, in turn if several have as many', () => {
  const candidates = named([1, 1, 1]);
  const choice = new EndpointChoice<Named>(0);
  const taken = [];
  for (let count = 0; count < 5; count++) {
    const chosen = choice.choose('lc', candidates, () => true);
    if (chosen !== undefined) chosen.active += 1;
    taken.push(chosen?.name);
  }
  expect(taken.join('')).toBe('abcab');
  (candidates[2] as Named).active = 0;
  expect(choice.choose('lc', candidates, () => true)?.name).toBe('c');
});

test('an endpoint that was tried is not chosen again', () => {
  const [a, b] = named([1, 1]) as [Named, Named];
  const choice = new EndpointChoice<Named>(0);
  expect(choice.choose('rr', [a, b], (candidate) => candidate !== a)).toBe(b);
  expect(choice.choose('rr', [a, b], () => false)).toBeUndefined();
});

test('session affinity lasts for its timeout after the last use, and forgets what has timed out', () => {
  const affinity = new ClientAffinity<string>();
  affinity.remember('10.0.0.1', 'a', 0, 1_000);
  affinity.remember('10.0.0.2', 'b', 500, 1_000);
  expect(affinity.find('10.0.0.1', 999, 1_000)).toBe('a');
  expect(affinity.find('10.0.0.1', 1_000, 1_000)).toBeUndefined();
  affinity.remember('10.0.0.3', 'c', 1_200, 1_000);
  expect(affinity.size).toBe(2);
  affinity.forget('b');
  expect(affinity.find('10.0.0.2', 600, 1_000)).toBeUndefined();
  expect(affinity.size).toBe(1);
});

test('session affinity is bounded', () => {
  const affinity = new ClientAffinity<string>();
  for (let client = 0; client < 70_000; client++) affinity.remember(String(client), 'a', client, 1e9);
  expect(affinity.size).toBe(65_536);
});
