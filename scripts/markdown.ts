// Formats Markdown like prettier, for the generated pages.

/** `printWidth` of .prettierrc.json. */
const WIDTH = 120;

/** Fills lines up to the page width. Lines after the first begin with `indent`. */
export function wrap(text: string, indent = ''): string {
  const lines: string[] = [];
  let line = '';
  for (const word of text.split(/\s+/)) {
    if (line !== '' && line.length + 1 + word.length > WIDTH) {
      lines.push(line);
      line = indent + word;
    } else {
      line += line === '' ? word : ` ${word}`;
    }
  }
  return [...lines, line].join('\n');
}

/** Escapes text for a cell of a table. */
export function cell(text: string): string {
  return text.replaceAll('|', '\\|').replaceAll('<', '&lt;');
}

/** Returns a table. If too wide to align, it is compact and ignored by prettier, which keeps diffs small. */
export function table(columns: readonly string[], rows: readonly (readonly string[])[]): string {
  const widths = columns.map((column, index) =>
    Math.max(3, column.length, ...rows.map((row) => row[index]?.length ?? 0)),
  );
  const aligned = widths.reduce((sum, width) => sum + width + 3, 1) <= WIDTH;
  const line = (cells: readonly string[]): string =>
    `| ${cells.map((text, index) => (aligned ? text.padEnd(widths[index] ?? 0) : text)).join(' | ')} |`;
  const rule = columns.map((_, index) => '-'.repeat(aligned ? (widths[index] ?? 3) : 3));
  return `${aligned ? '' : '<!-- prettier-ignore -->\n'}${[columns, rule, ...rows].map(line).join('\n')}`;
}
