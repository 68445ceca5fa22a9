/** Longest text that one field or message may bring into the log: a Service can carry annotations of megabytes. */
const LONGEST = 2000;

/** Control characters (also C1), line separators and the marks that turn text around: nothing of them may reach a terminal or a line. */
// eslint-disable-next-line no-control-regex
const UNPRINTABLE = /[\u0000-\u001f\u007f-\u009f\u2028\u2029\u202a-\u202e\u2066-\u2069]/g;

const NAMED: Readonly<Record<string, string>> = { '\n': '\\n', '\r': '\\r', '\t': '\\t' };

function escape(character: string): string {
  return NAMED[character] ?? `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`;
}

/** What looks like a credential, wherever it stands; the first group is kept. */
const SECRETS: readonly RegExp[] = [
  /\b(Bearer |Basic )[\w.~+/=-]{8,}/gi,
  /\b()eyJ[\w-]{8,}\.[\w-]{8,}\.[\w-]*/g,
  /(:\/\/)[^\s/@:]+:[^\s/@]+(?=@)/g,
  /()-----BEGIN [A-Z ]*(?:PRIVATE KEY|CERTIFICATE)-----[^]*?(?:-----END [A-Z ]*-----|$)/g,
];

/** A text of the API server, the kernel or a file on one line, without credentials and not too long. */
export function printable(text: string): string {
  let clean = text.length > LONGEST ? `${text.slice(0, LONGEST)}...` : text;
  for (const secret of SECRETS) clean = clean.replace(secret, '$1[hidden]');
  return clean.replace(UNPRINTABLE, escape);
}

/** Names of fields whose values are never shown. */
const SECRET_NAME =
  /token|password|passwd|secret|authorization|credential|(client|private|tls)-?key|key-?data|certificate/i;

export function isSecretName(name: string): boolean {
  return SECRET_NAME.test(name);
}
