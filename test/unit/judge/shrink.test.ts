import { expect, test } from '@jest/globals';
import { makeCase } from '../../judge/case/make-case.ts';
import { shrink } from '../../judge/shrink.ts';

test('a failing case is shrunk to what makes it fail', async () => {
  const isUdp = (text: string): boolean => text.includes('"protocol":"UDP","port":53');
  const given = Array.from({ length: 50 }, (_, id) => makeCase('ipvs', 1, id)).find((each) =>
    isUdp(JSON.stringify(each.steps)),
  );
  if (given === undefined) throw new Error('no such case');
  const small = await shrink(given, (candidate) => Promise.resolve(isUdp(JSON.stringify(candidate.steps))));
  expect(small.steps).toHaveLength(1);
  expect(small.steps[0]?.apply.map(({ kind }) => kind)).toEqual(['Service']);
  expect(small.steps[0]?.flows).toEqual([]);
});
