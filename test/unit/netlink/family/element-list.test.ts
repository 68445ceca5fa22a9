import { describe, expect, test } from '@jest/globals';
import { MessageWriter } from '../../../../src/netlink/codec/message-writer.ts';
import { NFT_VERDICT } from '../../../../src/netlink/family/nf-tables/data.ts';
import { ElementList } from '../../../../src/netlink/family/nf-tables/element-list.ts';
import { type NftElement, newElements } from '../../../../src/netlink/family/nf-tables/element.ts';

function bytes(...values: readonly number[]): Uint8Array {
  return Uint8Array.from(values);
}

function goto(chain: string): NonNullable<NftElement['data']> {
  return { verdict: { code: NFT_VERDICT.goto, chain } };
}

function listOf(elements: readonly NftElement[]): ElementList {
  const list = new ElementList();
  for (const { key, data } of elements) list.add(key, data);
  return list;
}

/** The message that adds these elements, encoded from the attribute tables or before. */
function message(elements: readonly NftElement[] | Uint8Array): Uint8Array {
  const writer = new MessageWriter();
  newElements(writer, 4, { table: 'kube-proxy', set: 'service-ips', elements });
  return writer.finish(1).bytes.slice();
}

const CASES: Readonly<Record<string, readonly NftElement[]>> = {
  'keys of a set': [{ key: bytes(10, 96, 0, 1) }, { key: bytes(10, 96, 0, 2) }],
  'the catch-all element of a set, beside others': [{ key: bytes(10, 96, 0, 1) }, { key: bytes() }],
  'the catch-all element of a map, beside others': [
    { key: bytes(1, 2, 3, 4), data: { value: bytes(9, 9, 9, 9, 0, 80) } },
    { key: bytes(), data: { value: bytes(8, 8, 8, 8, 1, 1) } },
    { key: bytes(), data: goto('choose-1') },
  ],
  'keys that need padding': [{ key: bytes(0, 80) }, { key: bytes(1, 187) }],
  'values of a map': [
    { key: bytes(1, 2, 3, 4), data: { value: bytes(9, 9, 9, 9, 0, 80) } },
    { key: bytes(5, 6, 7, 8), data: { value: bytes(8, 8, 8, 8, 1, 1) } },
    { key: bytes(5, 6, 7, 9), data: { value: bytes(7, 7) } },
  ],
  'verdicts of a map': [
    { key: bytes(1, 2, 3, 4), data: goto('choose-1') },
    { key: bytes(5, 6, 7, 8), data: goto('choose-1') },
    { key: bytes(5, 6, 7, 9), data: goto('choose-10') },
    { key: bytes(5, 6, 7, 9), data: { verdict: { code: NFT_VERDICT.drop } } },
    { key: bytes(5, 6, 7, 10), data: goto('choose-1') },
  ],
};

describe('a list of elements', () => {
  test.each(Object.entries(CASES))('has the bytes that the attribute tables give: %s', (_name, elements) => {
    const list = listOf(elements);
    const [only = bytes(), ...more] = list.messages;
    expect(more).toEqual([]);
    expect(message(only)).toEqual(message(elements));
    expect(list.size).toBe(elements.length);
    expect([...list].map(({ key }) => key)).toEqual(elements.map(({ key }) => key));
  });

  test('is divided among messages between two elements', () => {
    const elements = Array.from({ length: 5_000 }, (_, n): NftElement => ({
      key: bytes(10, 0, n >> 8, n & 255),
      data: n % 3 === 0 ? goto(`choose-${n % 7}`) : { value: bytes(n & 255, 1, 2, 3, 0, 80) },
    }));
    const list = listOf(elements);
    const { messages } = list;
    expect(messages.length).toBeGreaterThan(3);
    for (const part of messages) expect(part.length).toBeLessThan(0xffff - 4);
    expect([...list]).toEqual(elements.map(({ key, data }) => ({ key, data })));
    // Each message can be encoded on its own.
    expect(messages.map((part) => message(part).length)).toEqual(
      messages.map(({ length }) => length + 20 + 16 + 16 + 4),
    );
  });

  test('may be empty', () => {
    expect([...new ElementList()]).toEqual([]);
  });
});
