/** All errors of a configuration, so that one restart can fix all of them. */
export class ConfigError extends Error {
  readonly problems: readonly string[];

  constructor(problems: readonly string[]) {
    super(problems.join('\n'));
    this.name = 'ConfigError';
    this.problems = problems;
  }
}

/** Returns an error about a field of a document. */
export function fieldProblem(path: string, text: string, kind = 'KubeProxyConfiguration'): string {
  return `${kind}.${path}: ${text}`;
}

const SHOWN = 80;

/** Formats a value for an error message: quoted, on one line, cut to 80 characters. */
export function show(value: unknown): string {
  let text: string;
  try {
    text = typeof value === 'number' ? String(value) : (JSON.stringify(value) ?? String(value));
  } catch {
    text = String(value);
  }
  return text.length > SHOWN ? `${text.slice(0, SHOWN)}...` : text;
}
