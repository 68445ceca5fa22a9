import { type Value, valueAt } from './value-at.ts';
import { yamlFieldAt, yamlValueEnd } from './yaml-field.ts';

const REMOVED = '[removed]';

/** Names of fields whose values are secrets, at the end of the name: not `tokenFile`, which is a path. */
const SECRET_NAME = inAnyCase(
  '(?:token|password|passwd|passphrase|secrets?|credentials?|(?:api|access|private)-?_?key|auth|authorization|(?:key|certificate)-?data|cookie)',
);
const SCHEME = inAnyCase('(?:bearer|basic|negotiate)');

/**
 * Where secrets begin. No alternative reads far without a match: the time must be linear in the length of the text, which
 * others have written. X{8}X* rather than X{8,}: the latter overflows the stack on long texts.
 */
const SECRETS = [
  '(?<pem>-----BEGIN [A-Z ]{0,32}PRIVATE KEY-----)',
  // PEM of which base64 was made: "-----BEGIN".
  '(?<whole>LS0tLS1CRUdJTi[A-Za-z0-9+/=]*',
  // JSON Web Tokens, such as those of service accounts: '{"' in base64. A log may cut their end.
  String.raw`(?<![A-Za-z0-9])eyJ[\w-]{8}[\w-]*(?:\.[\w-]*){0,2}`,
  // Bootstrap tokens of kubeadm, and access keys of AWS.
  String.raw`\b[a-z0-9]{6}\.[a-z0-9]{16}\b`,
  String.raw`\b(?:AKIA|ASIA)[A-Z0-9]{16}\b)`,
  // The header Authorization.
  String.raw`\b${SCHEME}\s+(?<word>[\w.~+/=-]{6}[\w.~+/=-]*)`,
  // The user of a URL: until the last @ before its path.
  String.raw`:\/\/(?<user>[^\s/"]+)(?=@)`,
  // Fields in YAML, JSON, JSON in JSON and log lines; options of command lines.
  String.raw`${SECRET_NAME}(?:(?<quote>\\*["']?)\s*[:=]\s*|(?<=(?<![\w-])--?[\w-]{0,40})(?:[ \t]+|\\*["'],\s*))`,
].join('|');

/** Of a pattern of lower-case letters without escapes. Not `(?i:`, which Node.js 22 does not know. */
function inAnyCase(pattern: string): string {
  return pattern.replaceAll(/[a-z]/g, (letter) => `[${letter}${letter.toUpperCase()}]`);
}

/** Removes what is, or looks like, a secret: keys, tokens, passwords, the users of URLs. JSON remains JSON. */
export function redacted(text: string): string {
  const secrets = new RegExp(SECRETS, 'g');
  let rest = '';
  let copied = 0;
  for (let match = secrets.exec(text); match !== null; match = secrets.exec(text)) {
    const { from, end, quote } = secretOf(text, match);
    if (end === from) continue;
    rest += `${text.slice(copied, from)}${quote}${REMOVED}${quote}`;
    copied = end;
    secrets.lastIndex = end;
  }
  return rest + text.slice(copied);
}

function secretOf(text: string, { 0: { length }, index, groups = {} }: RegExpExecArray): Value & { from: number } {
  const end = index + length;
  const { pem, whole, word, user, quote = '' } = groups;
  if (pem !== undefined) return { from: index, end: pemEnd(text, end), quote: '' };
  const last = whole ?? word ?? user;
  if (last !== undefined) return { from: end - last.length, end, quote: '' };
  const below = yamlValue(text, { index, end, quote });
  if (below !== undefined) return below;
  const value = valueAt(text, end);
  // A list, and in JSON a number, becomes a string.
  return { from: end, end: value.end, quote: value.quote || quote };
}

/** A value without quotes of a field of YAML, in the field's line or below it: words, a block, a list. */
function yamlValue(
  text: string,
  { index, end, quote }: { readonly index: number; readonly end: number; readonly quote: string },
): (Value & { from: number }) | undefined {
  let from = end;
  while (/\s/.test(text.charAt(from - 1))) from -= 1;
  if (text[from - 1] !== ':') return undefined;
  while (text[from] === ' ') from += 1;
  // Of a quoted name, only a block: anything else may be JSON.
  if (!(quote === '' ? /[^"'[{]/ : /[|>]/).test(text.charAt(from))) return undefined;
  const field = yamlFieldAt(text, index, quote !== '');
  return field === undefined ? undefined : { from, end: yamlValueEnd(text, from, field), quote: '' };
}

/** Returns the end of a key in PEM, whose header ends at `from`; a log line may cut it. */
function pemEnd(text: string, from: number): number {
  const dashes = text.indexOf('-----', from);
  const footer = /-----END [A-Z ]{0,32}PRIVATE KEY-----/y;
  footer.lastIndex = dashes;
  if (dashes >= 0 && footer.test(text)) return footer.lastIndex;
  const body = /[\sA-Za-z0-9+/=\\]*/y;
  body.lastIndex = from;
  body.test(text);
  return body.lastIndex;
}
