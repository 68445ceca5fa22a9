import { expect, test } from '@jest/globals';
import { comparableLines, differences } from '../../cluster/trial/node-state.ts';

test('counters, comments and seeds do not make a difference', () => {
  const first = '# Generated on Sunday\n:INPUT ACCEPT [12:3456]\ncreate A hash:ip initval 0x12ab\nadd A 1.2.3.4\n\n';
  const second = '# Generated on Monday\nadd A 1.2.3.4\n:INPUT ACCEPT [0:0]\ncreate A hash:ip initval 0x34cd\n';
  expect(comparableLines(first)).toEqual([':INPUT ACCEPT', 'add A 1.2.3.4', 'create A hash:ip']);
  expect(differences(comparableLines(first), comparableLines(second))).toEqual([]);
});

test('lines that only one state has, or has more often', () => {
  expect(differences(['a', 'b', 'b'], ['b', 'c'])).toEqual(['- a', '- b', '+ c']);
});
