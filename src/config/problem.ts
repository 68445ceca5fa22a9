/** One thing that is wrong with the configuration, and where. */
export interface Problem {
  /** Field path below KubeProxyConfiguration ("ipvs.syncPeriod"); "" when it concerns the whole. */
  readonly path: string;
  /** What is wrong and what to do: a sentence without a full stop. */
  readonly text: string;
}

export function formatProblem({ path, text }: Problem): string {
  return `KubeProxyConfiguration${path === '' ? '' : `.${path}`}: ${text}`;
}

/** Everything that is wrong at once: nobody should have to fix a file one error a restart. */
export class ConfigError extends Error {
  readonly problems: readonly string[];

  constructor(problems: readonly string[]) {
    super(problems.join('\n'));
    this.name = 'ConfigError';
    this.problems = problems;
  }
}

const SHOWN = 80;

/** A value in an error: quoted, on one line, cut when long. */
export function show(value: unknown): string {
  let text: string;
  try {
    text = typeof value === 'number' ? String(value) : (JSON.stringify(value) ?? String(value));
  } catch {
    text = String(value);
  }
  return text.length > SHOWN ? `${text.slice(0, SHOWN)}...` : text;
}

/** The sentence of what was thrown, also when it comes from another realm. */
export function errorText(error: unknown): string {
  return typeof error === 'object' && error !== null && 'message' in error ? String(error.message) : String(error);
}
