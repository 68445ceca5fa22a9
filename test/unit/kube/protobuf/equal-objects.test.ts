import { isDeepStrictEqual } from 'node:util';
import { expect, test } from '@jest/globals';
import { Random } from '../../../../lab/judge/case/random.ts';
import { Interner } from '../../../../src/kube/objects/interner.ts';
import { readObject } from '../../../../src/kube/protobuf/read-object.ts';
import { encodeRaw } from '../../../apiserver/protobuf/encode-object.ts';
import { RANDOM_OBJECTS } from './random-objects.ts';
import { RESOURCES } from './resources.ts';

const SEED = 31;

test.each([
  ['Service', 4_000],
  ['EndpointSlice', 4_000],
  ['Node', 2_000],
] as const)('a random %s is the same object from JSON and from protobuf (%i objects)', (kind, count) => {
  const random = new Random(SEED);
  // A small interner, so that its table is cleared on the way.
  const interner = new Interner(64);
  const resource = RESOURCES[kind];
  const different: unknown[] = [];
  let named = 0;
  for (let done = 0; done < count; done++) {
    const object = RANDOM_OBJECTS[kind](random);
    const expected = resource.trim(object, interner);
    const read = readObject(encodeRaw(kind, object), resource.message, interner);
    const trimmed = resource.trim(read.object, interner);
    // One expect() for each object would be slow.
    if (!isDeepStrictEqual(trimmed, expected)) different.push({ object, trimmed, expected });
    if (expected.object !== undefined) named++;
  }
  expect(different).toEqual([]);
  expect(named).toBeGreaterThan(count / 3);
});
