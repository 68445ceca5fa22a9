import { expect, test } from '@jest/globals';
import fc from 'fast-check';
import { LineSplitter } from '../../../../src/kube/json/line-splitter.ts';

test('lines do not depend on where the bytes are split', () => {
  fc.assert(
    fc.property(
      fc.array(fc.string({ unit: 'binary' }).map((text) => text.replaceAll('\n', ''))),
      fc.array(fc.integer({ min: 1, max: 9 }), { minLength: 1 }),
      (lines, sizes) => {
        const bytes = Buffer.from(lines.map((line) => `${line}\n`).join(''));
        const splitter = new LineSplitter(10_000);
        const found: string[] = [];
        for (let start = 0, i = 0; start < bytes.length; i++) {
          const size = sizes[i % sizes.length] ?? 1;
          found.push(...(splitter.feed(bytes.subarray(start, start + size)) ?? []));
          start += size;
        }
        // Lone surrogates are not valid UTF-8: they arrive as their encoded replacement.
        const encoded = lines.map((line) => Buffer.from(line).toString());
        expect(found).toEqual(encoded.filter((line) => line.trim() !== ''));
        expect(splitter.rest()).toBe('');
      },
    ),
  );
});

test('rest() returns the text after the last newline', () => {
  const splitter = new LineSplitter(100);
  expect(splitter.feed(Buffer.from('one\ntwo\nthr'))).toEqual(['one', 'two']);
  expect(splitter.rest()).toBe('thr');
});

test('a line over the limit is refused, in one chunk or many', () => {
  const splitter = new LineSplitter(5);
  expect(splitter.feed(Buffer.from('12345\n'))).toEqual(['12345']);
  expect(splitter.feed(Buffer.from('123'))).toEqual([]);
  expect(splitter.feed(Buffer.from('456'))).toBeUndefined();
});
