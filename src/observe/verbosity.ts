import type { VModule } from '../config/value-kind.ts';

/** "*" is any text, "?" one character; everything else is itself. */
function patternToRegExp(pattern: string): RegExp {
  const source = pattern
    .replace(/[.+^${}()|[\]\\]/g, String.raw`\$&`)
    .replaceAll('*', '.*')
    .replaceAll('?', '.');
  return new RegExp(`^${source}$`);
}

/**
 * How much is shown: a level for all, and one for the components that a pattern of --vmodule matches. A pattern with a "/" is held
 * against the whole name ("kube/reflector"), one without against its last part.
 */
export class Verbosity {
  #level: number;
  readonly #modules: readonly { readonly pattern: RegExp; readonly whole: boolean; readonly verbosity: number }[];
  readonly #known = new Map<string, number | undefined>();

  constructor(level: number, modules: readonly VModule[]) {
    this.#level = level;
    this.#modules = modules.map(({ filePattern, verbosity }) => ({
      pattern: patternToRegExp(filePattern),
      whole: filePattern.includes('/'),
      verbosity,
    }));
  }

  /** Changes the level for all; patterns keep theirs. */
  setLevel(level: number): void {
    this.#level = level;
  }

  of(component: string): number {
    if (!this.#known.has(component)) this.#known.set(component, this.#match(component));
    return this.#known.get(component) ?? this.#level;
  }

  #match(component: string): number | undefined {
    const last = component.slice(component.lastIndexOf('/') + 1);
    return this.#modules.find(({ pattern, whole }) => pattern.test(whole ? component : last))?.verbosity;
  }
}
