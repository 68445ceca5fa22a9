import { jsonDocument } from '../base/text/escape-unprintable.ts';

export const FORMATS = ['text', 'json', 'yaml'] as const;
export type Format = (typeof FORMATS)[number];

/** Width of the text form. */
export const COLUMNS = 100;

export async function document(reply: object, format: Exclude<Format, 'text'>): Promise<string> {
  if (format === 'json') return jsonDocument(reply);
  // Only this form needs the YAML package, which takes memory.
  const { dump } = await import('js-yaml');
  return dump(reply, { lineWidth: -1 }).trimEnd();
}

/** Returns rows of cells as lines: columns aligned, the last one wrapped within 100 characters. */
export function aligned(rows: readonly (readonly string[])[], indent = 2): string[] {
  const widths: number[] = [];
  for (const row of rows) {
    for (const [at, cell] of row.slice(0, -1).entries()) widths[at] = Math.max(widths[at] ?? 0, cell.length);
  }
  return rows.flatMap((row) => {
    const head = row.slice(0, -1).map((cell, at) => `${cell.padEnd(widths[at] ?? 0)}  `);
    const start = ' '.repeat(indent) + head.join('');
    return wrapped(row.at(-1) ?? '', COLUMNS - start.length).map((text, at) =>
      `${at === 0 ? start : ' '.repeat(start.length)}${text}`.trimEnd(),
    );
  });
}

/** Returns the text in lines of at most `width` characters, unless a word is longer. */
export function wrapped(text: string, width = COLUMNS): string[] {
  const lines: string[] = [];
  for (const word of text.split(' ')) {
    const last = lines.at(-1);
    if (last === undefined || last.length + 1 + word.length > width) lines.push(word);
    else lines[lines.length - 1] = `${last} ${word}`;
  }
  return lines;
}
