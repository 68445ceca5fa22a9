/** Control characters of C1, DEL, line separators and bidi overrides. JSON.stringify leaves them as they are. */
const BEYOND_ASCII = String.raw`\u007f-\u009f\u2028\u2029\u202a-\u202e\u2066-\u2069`;
const UNPRINTABLE_IN_JSON = new RegExp(`[${BEYOND_ASCII}]`, 'g');
/** They could forge a line or alter a terminal. */
const UNPRINTABLE = new RegExp(String.raw`[\u0000-\u001f${BEYOND_ASCII}]`, 'g');

/** Returns the text on one line. Unprintable characters become \uXXXX, which Go, JSON and JavaScript can parse. */
export function escapeUnprintable(text: string): string {
  return text.replace(UNPRINTABLE, escaped);
}

/** Returns a value as JSON of several lines, with unprintable characters as \uXXXX. */
export function jsonDocument(value: object): string {
  return JSON.stringify(value, undefined, 2).replace(UNPRINTABLE_IN_JSON, escaped);
}

function escaped(char: string): string {
  return `\\u${char.charCodeAt(0).toString(16).padStart(4, '0')}`;
}
