import { describe, expect, test } from '@jest/globals';
import { makeCase } from '../../judge/case/make-case.ts';
import { playOurs } from '../../judge/ipvs/ours.ts';

const CASES = Array.from({ length: 200 }, (_, id) => makeCase('ipvs', 1, id));

describe('makeCase', () => {
  test('the same seed and number give the same case, another seed or number gives another', () => {
    expect(makeCase('ipvs', 7, 3)).toEqual(makeCase('ipvs', 7, 3));
    expect(makeCase('ipvs', 7, 3)).not.toEqual(makeCase('ipvs', 7, 4));
    expect(makeCase('ipvs', 7, 3)).not.toEqual(makeCase('ipvs', 8, 3));
  });

  test('histories have 0 to 4 changes, and 200 cases have each number of them', () => {
    const lengths = new Set(CASES.map(({ steps }) => steps.length - 1));
    expect([...lengths].toSorted((a, b) => a - b)).toEqual([0, 1, 2, 3, 4]);
  });

  test.each(['TCP', 'UDP', 'SCTP'])('200 cases have %s ports', (protocol) => {
    expect(JSON.stringify(CASES)).toContain(`"protocol":"${protocol}"`);
  });

  test('our side plays a case with all its steps', async () => {
    const given = CASES.find(({ steps, config }) => steps.length === 5 && config.nodePortAddresses.length === 0);
    if (given === undefined) throw new Error('no such case');
    expect(await playOurs(given)).toHaveLength(5);
  });
});
