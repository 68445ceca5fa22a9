import { readFileSync } from 'node:fs';
import { describe, expect, test } from '@jest/globals';
import { failureOfResponse, failureOfStatus } from '../../../../src/kube/api/failure.ts';
import { listReader } from '../../../../src/kube/api/list-reader.ts';
import { watchReader } from '../../../../src/kube/api/watch-reader.ts';
import { Interner } from '../../../../src/kube/objects/interner.ts';
import { encodeFrame, encodeObject } from '../../../apiserver/protobuf/encode-object.ts';
import { RESOURCES } from './resources.ts';

/** Objects in both encodings, made by Kubernetes' own code (go-objects/main.go). */
const OBJECTS = JSON.parse(readFileSync(new URL('go-objects/objects.json', import.meta.url), 'utf8')) as Readonly<
  Record<string, { readonly json: unknown; readonly protobuf: string }>
>;

const LIMIT = 100_000;
const PROTOBUF = 'application/vnd.kubernetes.protobuf';

function bytesOf(name: string): { readonly json: Buffer; readonly protobuf: Buffer } {
  const { json, protobuf = '' } = OBJECTS[name] ?? {};
  return { json: Buffer.from(`${JSON.stringify(json)}\n`), protobuf: Buffer.from(protobuf, 'base64') };
}

function pieces(bytes: Buffer, size: number): Buffer[] {
  return Array.from({ length: Math.ceil(bytes.length / size) }, (_, at) => bytes.subarray(at * size, (at + 1) * size));
}

describe.each([1, 7, LIMIT])('bytes that Go wrote, in pieces of %i bytes', (size) => {
  test.each([
    ['services', 'Service'],
    ['slices', 'EndpointSlice'],
    ['nodes', 'Node'],
  ] as const)('%s: a list has the same objects and the same end in both encodings', (name, kind) => {
    const read = (type: string, bytes: Buffer) => {
      const items: unknown[] = [];
      const reader = listReader(type, RESOURCES[kind], new Interner(), LIMIT, (item) => items.push(item));
      return { items, problems: pieces(bytes, size).map((piece) => reader.feed(piece)), end: reader.end() };
    };
    const { json, protobuf } = bytesOf(name);
    const expected = read('application/json', json);
    const actual = read(PROTOBUF, protobuf);
    expect(actual.items).toEqual(expected.items);
    expect(actual.items.length).toBeGreaterThan(0);
    expect(actual.end).toEqual(expected.end);
    expect(actual.end).toMatchObject({ resourceVersion: '99', next: name === 'services' ? 'next' : '' });
    expect([...actual.problems, ...expected.problems].every((problem) => problem === undefined)).toBe(true);
  });

  test.each([
    ['service event', 'Service', 'applied'],
    ['slice event', 'EndpointSlice', 'applied'],
    ['node event', 'Node', 'deleted'],
    ['bookmark', 'Service', 'bookmark'],
    ['error', 'Node', 'failed'],
  ] as const)('%s: a watch has the same event in both encodings', (name, kind, type) => {
    const read = (contentType: string, bytes: Buffer) => {
      const reader = watchReader(contentType, RESOURCES[kind], new Interner(), LIMIT);
      const events = pieces(bytes, size).flatMap((piece) => [...reader.feed(piece)]);
      return { events, withinEvent: reader.isWithinEvent() };
    };
    const { json, protobuf } = bytesOf(name);
    const actual = read(`${PROTOBUF};stream=watch`, protobuf);
    expect(actual).toEqual(read('application/json', json));
    expect(actual).toMatchObject({ events: [{ type }], withinEvent: false });
  });
});

test('a Status that Go wrote is the same failure in both encodings', () => {
  const { json, protobuf } = bytesOf('status');
  const expected = failureOfStatus(JSON.parse(json.toString()));
  expect(expected).toEqual({ kind: 'expired', message: expect.stringContaining('too old'), retryAfterMs: 3000 });
  expect(failureOfResponse(410, {}, protobuf)).toEqual(expected);
});

test.each(['service', 'status', 'services', 'slices'])('the server for tests encodes %s as Go does', (name) => {
  const { json, protobuf } = bytesOf(name);
  expect(encodeObject(JSON.parse(json.toString())).toString('hex')).toBe(protobuf.toString('hex'));
});

test.each(['service event', 'slice event', 'error'])('the server for tests encodes the %s as Go does', (name) => {
  const { json, protobuf } = bytesOf(name);
  const { type, object } = JSON.parse(json.toString()) as { readonly type: string; readonly object: unknown };
  expect(encodeFrame(type, object).toString('hex')).toBe(protobuf.toString('hex'));
});
