import { expect, test } from '@jest/globals';
import type { Case } from '../../judge/case/case.ts';
import { makeCase } from '../../judge/case/make-case.ts';
import { shrink } from '../../judge/shrink.ts';

function hasUdpPort({ steps }: Case): boolean {
  const services = steps.flatMap(({ apply }) => apply).filter((object) => object.kind === 'Service');
  return services.some(({ spec }) => spec.ports.some(({ protocol }) => protocol === 'UDP'));
}

test('a failing case is shrunk to what makes it fail', async () => {
  const given = Array.from({ length: 50 }, (_, id) => makeCase('ipvs', 1, id)).find(hasUdpPort);
  if (given === undefined) throw new Error('no such case');
  const small = await shrink(given, (candidate) => Promise.resolve(hasUdpPort(candidate)));
  expect(small.steps).toHaveLength(1);
  expect(small.steps[0]?.apply.map(({ kind }) => kind)).toEqual(['Service']);
  expect(small.steps[0]?.flows).toEqual([]);
});
