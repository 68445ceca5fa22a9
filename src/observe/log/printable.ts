/** Longest text that one field or message may add to the log: a Service can have annotations of megabytes. */
const MAX_LENGTH = 2000;

/** Patterns of credentials. The first group of a match is kept. */
const SECRETS: readonly RegExp[] = [
  /\b(Bearer |Basic )[\w.~+/=-]{8,}/gi,
  /\b()eyJ[\w-]{8,}\.[\w-]{8,}\.[\w-]*/g,
  /(:\/\/)[^\s/@:]+:[^\s/@]+(?=@)/g,
  /()-----BEGIN [A-Z ]*(?:PRIVATE KEY|CERTIFICATE)-----[^]*?(?:-----END [A-Z ]*-----|$)/g,
];

/** Names of fields whose values are never shown. */
const SECRET_NAME =
  /token|password|passwd|secret|authorization|credential|(client|private|tls)-?key|key-?data|certificate/i;

/** Returns the text without credentials, cut at 2,000 characters. */
export function redact(text: string): string {
  const cut = text.length > MAX_LENGTH ? `${text.slice(0, MAX_LENGTH)}...` : text;
  return SECRETS.reduce((clean, secret) => clean.replace(secret, '$1[hidden]'), cut);
}

export function isSecretName(name: string): boolean {
  return SECRET_NAME.test(name);
}
