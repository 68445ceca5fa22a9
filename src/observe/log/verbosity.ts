import type { VModule } from '../../config/value/value-kind.ts';

/** Converts a pattern in which "*" matches any text and "?" one character. */
function patternToRegExp(pattern: string): RegExp {
  const source = pattern
    .replace(/[.+^${}()|[\]\\]/g, String.raw`\$&`)
    .replaceAll('*', '.*')
    .replaceAll('?', '.');
  return new RegExp(`^${source}$`);
}

/**
 * The log level of each component: the global one, or that of the first matching --vmodule pattern. A pattern with
 * a "/" must match the whole name ("kube/reflector"), a pattern without "/" the last part of the name.
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

  /** Changes the level of components that no pattern matches. */
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
