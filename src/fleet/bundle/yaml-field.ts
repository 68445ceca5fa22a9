/** A field at the beginning of a line of YAML, which may be in JSON, or in JSON in JSON. */
export interface YamlField {
  /** Characters before its name: what is below it and belongs to it has more. */
  readonly column: number;
  /** Backslashes of a line's end: 0 in a file, 1 in a string of JSON, whose own quotes have one less. */
  readonly slashes: number;
}

/** Characters before a name that are read. */
const MOST_BEFORE = 128;
const NAME = /[\w.-]/;
const INDENT = /[ \t-]/;

/** Returns the field whose name, or its end, is before an index; undefined if something else is before it in its line. */
export function yamlFieldAt(text: string, index: number, isQuoted: boolean): YamlField | undefined {
  const least = Math.max(0, index - MOST_BEFORE);
  const back = (from: number, what: RegExp): number => {
    let at = from;
    while (at > least && what.test(text.charAt(at - 1))) at -= 1;
    return at;
  };
  let begin = back(index, NAME);
  // The "n" of "\n" looks like the first letter of the name.
  if (text[begin] === 'n' && text[begin - 1] === '\\' && begin < index) begin += 1;
  if (isQuoted) begin = back(begin - 1, /\\/);
  const line = back(begin, INDENT);
  const column = begin - line;
  if (line === 0 || text[line - 1] === '\n') return { column, slashes: 0 };
  const slashes = line - 1 - back(line - 1, /\\/);
  if (text[line - 1] === '"') return { column, slashes: slashes + 1 };
  return text[line - 1] === 'n' && slashes > 0 ? { column, slashes } : undefined;
}

/** Returns the end of a value that is not quoted: that of its line, or of the last line below it that belongs to it. */
export function yamlValueEnd(text: string, from: number, { column, slashes }: YamlField): number {
  let end = lineEnd(text, from, slashes);
  for (let last = end; isNewline(text, last, slashes);) {
    const line = last + Math.max(1, slashes + 1);
    let first = line;
    while (text[first] === ' ') first += 1;
    last = lineEnd(text, first, slashes);
    const indent = first - line;
    // Items of a list may be as far left as its name.
    if (indent > column || (indent === column && text[first] === '-')) end = last === first ? end : last;
    else if (last > first) break;
  }
  return end;
}

function isNewline(text: string, at: number, slashes: number): boolean {
  return text[at + slashes] === (slashes === 0 ? '\n' : 'n');
}

/** Returns the index of the first character that is not in the line: of "\n", of a string's end, or that of the text. */
function lineEnd(text: string, from: number, slashes: number): number {
  if (slashes === 0) return text.indexOf('\n', from) < 0 ? text.length : text.indexOf('\n', from);
  const marks = /[\\"]/g;
  marks.lastIndex = from;
  for (let match = marks.exec(text); match !== null; match = marks.exec(text)) {
    let at = match.index;
    while (text[at] === '\\') at += 1;
    const found = at - match.index;
    if (text[at] === '"' ? found < slashes : found === slashes && text[at] === 'n') return match.index;
    marks.lastIndex = at + 1;
  }
  return text.length;
}
