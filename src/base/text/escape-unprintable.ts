/** Control characters (C1 too), line separators and bidi overrides: they could forge a line or alter a terminal. */
// eslint-disable-next-line no-control-regex
const UNPRINTABLE = /[\u0000-\u001f\u007f-\u009f\u2028\u2029\u202a-\u202e\u2066-\u2069]/g;

/** Returns the text on one line. Unprintable characters become \uXXXX, which Go, JSON and JavaScript can parse. */
export function escapeUnprintable(text: string): string {
  return text.replace(UNPRINTABLE, (char) => `\\u${char.charCodeAt(0).toString(16).padStart(4, '0')}`);
}
