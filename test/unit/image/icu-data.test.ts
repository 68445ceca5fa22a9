import { describe, expect, test } from '@jest/globals';
import { englishIcuData, itemsOf } from '../../../scripts/image/icu-data.ts';

const HEADER = 32;

/** ICU data with items of 24 bytes, which need padding. */
function icuData(names: readonly string[]): Buffer {
  const header = Buffer.alloc(HEADER);
  header.writeUInt16LE(HEADER, 0);
  header.writeUInt16LE(0x27da, 2);
  header.write('CmnD', 12);
  const index = Buffer.alloc(4 + 8 * names.length);
  index.writeUInt32LE(names.length);
  const texts = names.map((name) => `${name}\0`);
  let at = index.length;
  for (const [row, text] of texts.entries()) {
    index.writeUInt32LE(at, 4 + 8 * row);
    at += text.length;
  }
  const items = names.map((name, row) => {
    index.writeUInt32LE(at + 24 * row, 8 + 8 * row);
    return Buffer.alloc(24, name);
  });
  return Buffer.concat([header, index, Buffer.from(texts.join('')), ...items]);
}

const KEPT = [
  'icudt78l/brkitr/thaidict.dict',
  'icudt78l/coll/root.res',
  'icudt78l/curr/pool.res',
  'icudt78l/en.res',
  'icudt78l/en_001.res',
  'icudt78l/gb18030-2022.cnv',
  'icudt78l/plurals.res',
  'icudt78l/unit/en_US.res',
  'icudt78l/zoneinfo64.res',
];
const DROPPED = ['icudt78l/de.res', 'icudt78l/fil.res', 'icudt78l/lang/sr_Cyrl_BA.res', 'icudt78l/zone/zh_Hant.res'];

describe('ICU data for English', () => {
  const data = englishIcuData(icuData([...KEPT, ...DROPPED].toSorted()));
  const items = itemsOf(data.subarray(HEADER));

  test('has all items but those of other languages, in the order of their names', () => {
    expect(items.map(({ name }) => name)).toEqual(KEPT);
  });

  test('items keep their content, at multiples of 16', () => {
    for (const { name, content } of items) {
      expect(content.subarray(0, 24)).toEqual(Buffer.alloc(24, name));
      expect((content.byteOffset - data.byteOffset - HEADER) % 16).toBe(0);
    }
  });

  test('other bytes are an error', () => {
    expect(() => englishIcuData(Buffer.alloc(64))).toThrow('not common data of ICU');
  });
});
