/** Format of ICU's common data: a header, then a table of items, sorted by name, whose offsets begin at the table. */
const MAGIC = 0x27da;
const COMMON_DATA = 'CmnD';
const ALIGNMENT = 16;

/** Locales have names such as `de` or `zh_Hant_TW`; other bundles (`root`, `plurals`, `zoneinfo64`) have longer words. */
const OTHER_LOCALE = /\/(?!en(?:_|\.))[a-z]{2,3}(?:_\w+)?\.res$/;

interface Item {
  readonly name: string;
  readonly content: Buffer;
}

/**
 * Returns ICU data without the bundles of languages other than English, as a build of Node.js with `small-icu` has it.
 * Other locales then have the root's formats. Encodings, Unicode properties, calendars and time zones stay.
 */
export function englishIcuData(data: Buffer): Buffer {
  const headerSize = data.readUInt16LE(0);
  if (data.readUInt16LE(2) !== MAGIC || data.toString('latin1', 12, 16) !== COMMON_DATA)
    throw new Error('this is not common data of ICU in little-endian order');
  const kept = itemsOf(data.subarray(headerSize)).filter(({ name }) => !OTHER_LOCALE.test(name));
  return Buffer.concat([data.subarray(0, headerSize), commonData(kept)]);
}

export function itemsOf(table: Buffer): readonly Item[] {
  const entries = Array.from({ length: table.readUInt32LE(0) }, (_, index) => {
    const nameAt = table.readUInt32LE(4 + 8 * index);
    const name = table.toString('latin1', nameAt, table.indexOf(0, nameAt));
    return { name, from: table.readUInt32LE(8 + 8 * index) };
  });
  return entries.map(({ name, from }, index) => ({ name, content: table.subarray(from, entries[index + 1]?.from) }));
}

function commonData(items: readonly Item[]): Buffer {
  const index = Buffer.alloc(4 + 8 * items.length);
  index.writeUInt32LE(items.length);
  const names = items.map(({ name }) => Buffer.from(`${name}\0`, 'latin1'));
  const parts: Buffer[] = [index, ...names];
  let size = index.length;
  for (const [at, name] of names.entries()) {
    index.writeUInt32LE(size, 4 + 8 * at);
    size += name.length;
  }
  for (const [at, { content }] of items.entries()) {
    const padding = Buffer.alloc(-size & (ALIGNMENT - 1));
    index.writeUInt32LE(size + padding.length, 8 + 8 * at);
    parts.push(padding, content);
    size += padding.length + content.length;
  }
  return Buffer.concat(parts);
}
