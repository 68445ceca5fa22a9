import { describe, expect, test } from '@jest/globals';
import fc from 'fast-check';
import { ListScanner } from '../../../../src/kube/json/list-scanner.ts';

function scan(
  text: string,
  sizes: readonly number[] = [7],
  limit = 100_000,
): { items: readonly unknown[]; envelope: string; fits: boolean } {
  const items: unknown[] = [];
  let fits = true;
  const scanner = new ListScanner(limit, (item) => items.push(JSON.parse(item)));
  const bytes = Buffer.from(text);
  for (let start = 0, i = 0; start < bytes.length; i++) {
    const size = sizes[i % sizes.length] ?? 1;
    fits &&= scanner.feed(bytes.subarray(start, start + size));
    start += size;
  }
  return { items, envelope: scanner.end(), fits };
}

describe('ListScanner', () => {
  test('the scanner finds the items and the envelope of any list, however it is split and ordered', () => {
    const item = fc.dictionary(fc.string(), fc.jsonValue());
    const value = fc.record({
      kind: fc.constant('ServiceList'),
      metadata: fc.record({ resourceVersion: fc.string(), items: fc.array(fc.integer()), odd: fc.jsonValue() }),
      columns: fc.array(fc.jsonValue()),
      items: fc.array(item),
    });
    const order = fc.shuffledSubarray(['kind', 'metadata', 'columns', 'items'] as const, { minLength: 4 });
    const sizes = fc.array(fc.integer({ min: 1, max: 20 }), { minLength: 1 });
    fc.assert(
      fc.property(value, order, sizes, fc.constantFrom(undefined, 2), (list, keys, pieces, indent) => {
        const ordered = Object.fromEntries(keys.map((key) => [key, list[key]]));
        const text = JSON.stringify(ordered, undefined, indent);
        const { items, envelope, fits } = scan(text, pieces);
        expect(items).toEqual((JSON.parse(text) as typeof list).items);
        expect(JSON.parse(envelope)).toEqual({ ...(JSON.parse(text) as typeof list), items: [] });
        expect(fits).toBe(true);
      }),
    );
  });

  test('a list may have items that are null, or none', () => {
    expect(scan('{"items":null,"metadata":{}}')).toMatchObject({ items: [], envelope: '{"items":null,"metadata":{}}' });
    expect(scan('{"metadata":{}}')).toMatchObject({ items: [], envelope: '{"metadata":{}}' });
  });

  test('a truncated list has no valid envelope', () => {
    const text = '{"metadata":{"a":"b"},"items":[{"a":[1]},{"b":"]}"}]}';
    for (let end = 0; end < text.length; end++) {
      const { envelope } = scan(text.slice(0, end));
      expect(() => JSON.parse(envelope) as unknown).toThrow(/JSON/);
    }
    expect(JSON.parse(scan(text).envelope)).toEqual({ metadata: { a: 'b' }, items: [] });
  });

  test('an item or an envelope over the limit is an error', () => {
    expect(scan(`{"items":[{"a":"${'x'.repeat(200)}"}]}`, [50], 100).fits).toBe(false);
    expect(scan(`{"metadata":"${'x'.repeat(200)}"}`, [50], 100).fits).toBe(false);
    expect(scan(`{"items":[${Array(50).fill('{"a":1}').join(',')}]}`, [50], 100).fits).toBe(true);
  });
});
