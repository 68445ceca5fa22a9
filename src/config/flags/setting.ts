import type { ValueKind } from '../value/value-kind.ts';

/** One setting: a flag, a field of KubeProxyConfiguration v1alpha1, or both. */
export interface Setting<T> {
  /** Name of the flag, without dashes. Undefined if only the configuration file can set this field. */
  readonly name: string | undefined;
  readonly kind: ValueKind<T>;
  /** The default. If it is undefined, the setting may be unset, and "" on the command line unsets it. */
  readonly fallback: T;
  /** Whether the setting is a field of KubeProxyConfiguration. The key of its row is then the path. */
  readonly inFile: boolean;
  readonly short?: string;
  readonly help?: string;
  /** Placeholder for the value in --help; by default, that of `kind`. */
  readonly hint?: string;
  /** The default without a configuration file, if it differs. */
  readonly flagFallback?: T;
  /** Whether the zero value in a configuration file means the default. */
  readonly zeroIsUnset?: boolean;
  readonly deprecated?: string;
  /** Why the setting has no effect; it is still parsed and validated. */
  readonly ignored?: string;
  /** Returns the errors of the value, or undefined if it is valid. */
  check?(value: T): string | readonly string[] | undefined;
  /** Returns the errors of one item of a list, or undefined if it is valid. */
  checkEach?(item: T extends readonly (infer Item)[] ? Item : never): string | readonly string[] | undefined;
}

/** A setting that a KubeProxyConfiguration file may contain. */
export interface Field<T> extends Setting<T> {
  readonly inFile: true;
}

export type ValueOf<S> = S extends Setting<infer T> ? T : never;

export type ValuesOf<Table> = { readonly [K in keyof Table]: ValueOf<Table[K]> };

type Details<T> = Omit<Setting<T>, 'name' | 'kind' | 'fallback' | 'inFile'>;

/** Creates a setting that is only a flag. */
export function flag<T>(name: string, kind: ValueKind<T>, fallback: T, details: Details<NoInfer<T>>): Setting<T> {
  return { name, kind, fallback, inFile: false, ...details };
}

/** Creates a setting that is both a field and a flag. */
export function field<T>(name: string, kind: ValueKind<T>, fallback: T, details: Details<NoInfer<T>>): Field<T> {
  return { name, kind, fallback, inFile: true, ...details };
}

/** Creates a setting that is only a field. */
export function fileOnly<T>(
  kind: ValueKind<T>,
  fallback: T,
  { zeroIsUnset = false, check }: Partial<Pick<Field<T>, 'zeroIsUnset' | 'check'>> = {},
): Field<T> {
  return { name: undefined, kind, fallback, inFile: true, zeroIsUnset, ...(check && { check }) };
}

/** Formats a value as text that its flag accepts. */
export function textOf({ kind }: Setting<unknown>, value: unknown): string {
  return value === undefined ? '' : kind.toText(value);
}

export function defaultText(setting: Setting<unknown>): string {
  return textOf(setting, setting.flagFallback ?? setting.fallback);
}

/** Returns the description of a flag for --help and the documentation. */
export function helpOf({ help, ignored }: Setting<unknown>): string {
  return help ?? `no effect: ${ignored}`;
}
