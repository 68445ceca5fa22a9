const REMOVED = '[removed]';

/** Names of fields whose values are secrets, at the end of the name: not `tokenFile`, which is a path. */
const SECRET_NAME =
  '(?:token|password|passwd|passphrase|secret|secrets|credential|credentials|api-?_?key|access-?_?key|private-?_?key|auth|authorization|key-?data|certificate-?data|client-certificate-data|client-key-data|cookie)';

/** What is a secret, wherever it is; the first group, if any, stays. */
const PATTERNS: readonly RegExp[] = [
  // PEM; also without its end, where a log line was cut.
  /-----BEGIN [A-Z ]*PRIVATE KEY-----(?:[^]*?-----END [A-Z ]*PRIVATE KEY-----|[\sA-Za-z0-9+/=\\]*)/g,
  // PEM of which base64 was made: "-----BEGIN".
  /LS0tLS1CRUdJTi[A-Za-z0-9+/=]*/g,
  // JSON Web Tokens, such as those of service accounts.
  /\beyJ[\w-]+\.[\w-]+\.?[\w-]*/g,
  // The header Authorization.
  /\b((?:bearer|basic|negotiate)\s+)[\w.~+/=-]{6,}/gi,
  // The user of a URL.
  /(\b[a-z][a-z0-9+.-]*:\/\/)[^\s/@"']+@/gi,
  // Bootstrap tokens of kubeadm, and access keys of AWS.
  /\b[a-z0-9]{6}\.[a-z0-9]{16}\b/g,
  /\b(?:AKIA|ASIA)[A-Z0-9]{16}\b/g,
  // Fields in YAML, JSON, JSON in JSON, log lines and command lines.
  ...[String.raw`"(?:[^"\\]|\\[^])*"`, String.raw`\\+"[^"]*"`, "'[^']*'", String.raw`[^\s"',}\]\\]+`].map(
    (value) => new RegExp(String.raw`(\b[\w-]*${SECRET_NAME}\\*["']?\s*[:=]\s*)${value}`, 'gi'),
  ),
];

/** Removes what is, or looks like, a secret: keys, tokens, passwords, the users of URLs. */
export function redacted(text: string): string {
  return PATTERNS.reduce(
    (rest, pattern) =>
      rest.replace(pattern, (_match, kept: unknown) => `${typeof kept === 'string' ? kept : ''}${REMOVED}`),
    text,
  );
}
