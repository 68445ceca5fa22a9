import { describe, expect, test } from '@jest/globals';
import { Random } from '../../../../lab/judge/case/random.ts';
import { listReader } from '../../../../src/kube/api/list-reader.ts';
import { watchReader } from '../../../../src/kube/api/watch-reader.ts';
import { Interner } from '../../../../src/kube/objects/interner.ts';
import { readObject } from '../../../../src/kube/protobuf/read-object.ts';
import { WireReader } from '../../../../src/kube/protobuf/wire-reader.ts';
import { lengthField, varint } from '../../../apiserver/protobuf/encode.ts';
import { encodeFrame, encodeObject, encodeRaw } from '../../../apiserver/protobuf/encode-object.ts';
import { RANDOM_OBJECTS } from './random-objects.ts';
import { RESOURCES } from './resources.ts';

const PROTOBUF = 'application/vnd.kubernetes.protobuf';
const LIMIT = 4_096;
const KINDS = ['Service', 'EndpointSlice', 'Node'] as const;

/** Changes, drops or adds a few bytes. */
function damaged(bytes: Buffer, random: Random): Buffer {
  let damage = Buffer.from(bytes);
  for (let left = 1 + random.below(3); left > 0; left--) {
    const at = random.below(damage.length + 1);
    const rest = damage.subarray(random.pick([at, at + 1, at + 1, at + 1, damage.length]));
    const added = random.pick([[], [random.below(256)], [random.pick([0, 0x7f, 0x80, 0xff])]]);
    damage = Buffer.concat([damage.subarray(0, at), Buffer.from(added), rest]);
  }
  return damage;
}

interface Outcome {
  readonly names: readonly string[];
  readonly end: unknown;
}

function readList(bytes: Buffer, kind: (typeof KINDS)[number], size = bytes.length || 1): Outcome {
  const names: string[] = [];
  const reader = listReader(PROTOBUF, RESOURCES[kind], new Interner(), LIMIT, ({ object, reason }) =>
    names.push(object?.meta.name ?? reason ?? ''),
  );
  for (let at = 0; at < bytes.length; at += size) {
    const problem = reader.feed(bytes.subarray(at, at + size));
    if (problem !== undefined) return { names, end: problem };
  }
  return { names, end: reader.end() };
}

describe('damaged bytes', () => {
  test.each(KINDS)('of a %s are an object or an error that names the kind', (kind) => {
    const random = new Random(7);
    const interner = new Interner();
    const resource = RESOURCES[kind];
    let invalid = 0;
    for (let run = 0; run < 2_000; run++) {
      const bytes = damaged(encodeRaw(kind, RANDOM_OBJECTS[kind](random)), random);
      const { object, reason } = readObject(bytes, resource.message, interner);
      if (reason === undefined) resource.trim(object, interner);
      else if (reason.startsWith(`the bytes of the ${kind}`)) invalid++;
      else throw new Error(`the error does not name the kind: ${reason}`);
    }
    expect(invalid).toBeGreaterThan(300);
  });

  test.each(KINDS)('of a list of a %s end in a list or an error, in pieces of any size the same', (kind) => {
    const random = new Random(8);
    for (let run = 0; run < 300; run++) {
      const items = [RANDOM_OBJECTS[kind](random), RANDOM_OBJECTS[kind](random)];
      const list = { kind: `${kind}List`, apiVersion: 'v1', metadata: { resourceVersion: '7' }, items };
      const bytes = damaged(encodeObject(list), random);
      expect([run, readList(bytes, kind, 1 + random.below(40))]).toEqual([run, readList(bytes, kind)]);
    }
  });

  test('of a watch end in events or an error', () => {
    const random = new Random(9);
    let failed = 0;
    for (let run = 0; run < 600; run++) {
      const object = { ...RANDOM_OBJECTS.Service(random), kind: 'Service', apiVersion: 'v1' };
      const frame = encodeFrame('MODIFIED', object);
      const bytes = Buffer.concat([damaged(frame, random), frame]);
      const reader = watchReader(PROTOBUF, RESOURCES.Service, new Interner(), LIMIT);
      if ([...reader.feed(bytes)].some(({ type }) => type === 'failed')) failed++;
    }
    expect(failed).toBeGreaterThan(30);
  });
});

test('an object that ends early is never taken for a whole one', () => {
  const object = {
    metadata: { name: 'web', namespace: 'shop', labels: { app: 'web' } },
    spec: { clusterIP: '10.96.0.1' },
  };
  const bytes = encodeRaw('Service', object);
  const reasons = Array.from({ length: bytes.length }, (_, end) => {
    const { reason } = readObject(bytes.subarray(0, end), RESOURCES.Service.message, new Interner());
    return reason ?? `whole: ${end}`;
  });
  // Between two fields, only the length in front of the object could tell.
  const whole = reasons.filter((reason) => reason.startsWith('whole'));
  expect(whole.length).toBeLessThanOrEqual(3);
  expect(reasons.at(-1)).toBe('the bytes of the Service shop/web are invalid: a value is longer than what holds it');
  expect(reasons[5]).toBe('the bytes of the Service are invalid: a value is longer than what holds it');
});

describe('lists', () => {
  const list = { kind: 'ServiceList', apiVersion: 'v1', metadata: { resourceVersion: '7', continue: 'on' } };
  const web = { metadata: { name: 'web' } };
  const bytes = encodeObject({ ...list, items: [web, web] });

  test('a list that ends early is an error at every position', () => {
    // The last two fields of the envelope are empty, of two bytes each.
    const ends = Array.from({ length: bytes.length - 4 }, (_, end) => readList(bytes.subarray(0, end), 'Service').end);
    expect(new Set(ends)).toEqual(new Set(['the list is not valid protobuf: the bytes end within the list']));
    expect(readList(bytes, 'Service')).toEqual({ names: ['web', 'web'], end: { next: 'on', resourceVersion: '7' } });
  });

  test('an invalid item is named, and the others are read', () => {
    const odd = Buffer.from(bytes);
    odd[odd.lastIndexOf('web') - 1] = 120;
    expect(readList(odd, 'Service').names).toEqual([
      'web',
      'the bytes of the Service are invalid: a value is longer than what holds it',
    ]);
  });

  test('an item is refused by its length, before it arrives', () => {
    const large = encodeObject({ ...list, items: [{ metadata: { name: 'x'.repeat(LIMIT) } }] });
    expect(readList(large.subarray(0, 60), 'Service').end).toMatch(/an object has more than 4096 bytes/);
  });

  test.each([
    ['another kind', encodeObject({ ...list, kind: 'NodeList', items: [] }), /a "NodeList" instead of a ServiceList/],
    ['a Status', encodeObject({ kind: 'Status', apiVersion: 'v1' }), /a "Status" instead of a ServiceList/],
    ['an encoding', Buffer.concat([bytes, lengthField(3, Buffer.from('gzip'))]), /has the encoding "gzip"/],
    ['a type', Buffer.concat([bytes, lengthField(4, Buffer.from('application/json'))]), /the type "application\/json"/],
    ['two lists', Buffer.concat([bytes, bytes.subarray(4)]), /there are two lists/],
    ['no prefix', bytes.subarray(4), /does not begin with "k8s\\0"/],
    ['JSON', Buffer.from('{"kind":"ServiceList"}'), /does not begin with "k8s\\0"/],
    ['a group', Buffer.concat([bytes, Buffer.of(0x2b)]), /has the wire type 3/],
    ['field 0', Buffer.concat([bytes, Buffer.of(0x02, 0x00)]), /invalid number/],
    ['a length of 64 bits', Buffer.concat([bytes, Buffer.of(0x2a), varint(-1)]), /a length has more than 32 bits/],
    ['an endless number', Buffer.concat([bytes, Buffer.of(0x2a), Buffer.alloc(11, 0xff)]), /more than 64 bits/],
  ])('%s: an error', (_name, odd, reason) => {
    expect(readList(odd, 'Service').end).toMatch(reason);
  });
});

describe('WireReader', () => {
  test.each([
    0,
    1,
    127,
    128,
    2 ** 28 - 1,
    2 ** 28,
    2 ** 31 - 1,
    -1,
    -128,
    -(2 ** 31),
    2 ** 53 - 1,
    -(2 ** 53) + 1,
    1_767_323_045,
  ])('reads the integer %d', (value) => {
    const reader = new WireReader(varint(value), undefined);
    expect(reader.integer()).toBe(value);
    expect(reader.at).toBe(varint(value).length);
  });

  test.each([
    [varint(2n ** 53n), 'an integer has more than 53 bits'],
    [varint(-(2n ** 63n)), 'an integer has more than 53 bits'],
    [Buffer.from('ffffffffffffffffff7f', 'hex'), 'an integer has more than 64 bits'],
    [Buffer.from('ff', 'hex'), 'the bytes end within a number'],
    [Buffer.alloc(0), 'the bytes end within a number'],
  ])('refuses the integer %s: %s', (bytes, reason) => {
    expect(() => new WireReader(bytes, undefined).integer()).toThrow(reason);
  });

  test('a flag is true for any number but zero', () => {
    const flags = ['00', '01', '8000', '8080808080808080800100'].map((hex) =>
      new WireReader(Buffer.from(hex, 'hex'), undefined).flag(),
    );
    expect(flags).toEqual([false, true, false, true]);
  });

  test('texts of the same bytes are one, and those that are not ASCII are not mistaken', () => {
    const interner = new Interner();
    const read = (text: string) => new WireReader(Buffer.from(text), interner).repeatedText(Buffer.byteLength(text));
    for (const text of ['node-1', 'node-1', 'node-2', 'Ã©', 'é', 'é', '', 'x'.repeat(65)])
      expect(read(text)).toBe(text);
  });
});
