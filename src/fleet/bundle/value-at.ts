/** A value in YAML, JSON, JSON in JSON or a log line. */
export interface Value {
  /** Index after its last character, in UTF-16 code units. */
  readonly end: number;
  /** Its quote, with the backslashes of JSON in JSON; "" if it has none. */
  readonly quote: string;
}

const QUOTE = /\\{0,15}["']/y;
const WORD = /(?:(?:bearer|basic|digest|negotiate)[ \t]+)?[^\s"',}\]\\]*/iy;

/** Finds the end of the value at an index. A string or a list without an end reaches to the end of the text. */
export function valueAt(text: string, from: number): Value {
  QUOTE.lastIndex = from;
  const [quote] = QUOTE.exec(text) ?? [];
  if (quote !== undefined) return { end: stringEnd(text, from + quote.length, quote), quote };
  if (text[from] === '[' || text[from] === '{') return { end: listEnd(text, from), quote: '' };
  WORD.lastIndex = from;
  return { end: from + (WORD.exec(text)?.[0].length ?? 0), quote: '' };
}

/**
 * Returns the end of a string. One of several lines may lack its end, and the quote belong to another string, whose secret
 * follows: the rest of that line belongs to it, too. In JSON within JSON within JSON its quotes have 1, 3, 7 backslashes; with n, a quote inside of
 * it has 2n + 1, and a backslash of the string before the quote adds 2n + 2.
 */
function stringEnd(text: string, from: number, quote: string): number {
  const mark = quote.slice(-1);
  const slashes = quote.length - 1;
  for (let at = text.indexOf(mark, from); at >= 0; at = text.indexOf(mark, at + 1)) {
    let begin = at;
    while (begin > from && text[begin - 1] === '\\') begin -= 1;
    const more = at - begin - slashes;
    // The string around it ends.
    if (more < 0) return begin;
    if (more % (2 * slashes + 2) !== 0) continue;
    if (mark === '"' || text[at + 1] !== mark) return isOneLine(text, from, at) ? at + 1 : lineEnd(text, at);
    // YAML: '' is one quote.
    at += 1;
  }
  return text.length;
}

function isOneLine(text: string, from: number, end: number): boolean {
  return !text.slice(from, end).includes('\n');
}

function lineEnd(text: string, from: number): number {
  const end = text.indexOf('\n', from);
  return end < 0 ? text.length : end;
}

function listEnd(text: string, from: number): number {
  const marks = /\\{0,15}"|[[\]{}]/g;
  marks.lastIndex = from;
  let depth = 0;
  for (let match = marks.exec(text); match !== null; match = marks.exec(text)) {
    const [mark] = match;
    if (mark.endsWith('"')) marks.lastIndex = stringEnd(text, marks.lastIndex, mark);
    else depth += mark === '[' || mark === '{' ? 1 : -1;
    if (depth === 0) return marks.lastIndex;
  }
  return text.length;
}
