import { expect, test } from '@jest/globals';
import { goneAt, readyServers } from '../../cluster/trial/endpoint-watch.ts';

test('a line of kubectl names the servers that are ready', () => {
  expect(readyServers('a=true b=false c=true ')).toEqual(new Set(['a', 'c']));
  expect(readyServers('')).toEqual(new Set());
});

test('servers are gone with the first event without any of them', () => {
  const events = [
    { at: 1, pods: new Set<string>() },
    { at: 5, pods: new Set(['a', 'b', 'c']) },
    { at: 7, pods: new Set(['b', 'c']) },
    { at: 9, pods: new Set(['c']) },
    { at: 11, pods: new Set(['c']) },
  ];
  expect(goneAt(events, ['a', 'b'], 3)).toBe(9);
  expect(goneAt(events, ['a'], 3)).toBe(7);
  expect(goneAt(events, ['a', 'c'], 3)).toBeUndefined();
});
