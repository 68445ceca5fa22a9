import { type Duration, formatDuration, parseDuration } from './duration.ts';

/**
 * How one kind of value is read and written: as the text of a flag and as a value of a YAML or JSON document. `undefined`
 * from either reader means "this is none": the caller says where it stood, `expected` says what was wanted.
 */
export interface ValueKind<T> {
  /** What stands for the value in --help: "<duration>". */
  readonly hint: string;
  /** Completes the sentence "want ...". */
  readonly expected: string;
  fromText(text: string): T | undefined;
  fromDocument(value: unknown): T | undefined;
  toDocument(value: T): unknown;
  /** What `fromText` reads as this value. */
  toText(value: T): string;
  /** How a flag given twice combines; the last one wins where this is absent. */
  merge?(earlier: T, later: T): T;
}

/** One entry of --vmodule: components whose name matches the pattern log at this verbosity. */
export interface VModule {
  readonly filePattern: string;
  readonly verbosity: number;
}

export type FeatureGateSettings = Readonly<Record<string, boolean>>;

function integer(min: number, max: number, expected: string): ValueKind<number> {
  const inRange = (n: number): number | undefined => (Number.isInteger(n) && n >= min && n <= max ? n : undefined);
  return {
    hint: 'number',
    expected,
    // pflag reads integers with base 0: a leading 0x, 0o or 0b counts.
    fromText: (text) =>
      /^[+-]?(0[xX][\da-fA-F]+|0[oO][0-7]+|0[bB][01]+|\d+)$/.test(text) ? inRange(signed(text)) : undefined,
    fromDocument: (value) => (typeof value === 'number' ? inRange(value) : undefined),
    toDocument: (value) => value,
    toText: String,
  };
}

function signed(text: string): number {
  const magnitude = text.replace(/^[+-]/, '');
  return text.startsWith('-') ? -Number(magnitude) || 0 : Number(magnitude);
}

const TRUE_TEXTS = new Set(['1', 't', 'T', 'TRUE', 'true', 'True']);
const FALSE_TEXTS = new Set(['0', 'f', 'F', 'FALSE', 'false', 'False']);

function parseBool(text: string): boolean | undefined {
  if (TRUE_TEXTS.has(text)) return true;
  return FALSE_TEXTS.has(text) ? false : undefined;
}

export const string: ValueKind<string> = {
  hint: 'text',
  expected: 'a string',
  fromText: (text) => text,
  fromDocument: (value) => (typeof value === 'string' ? value : undefined),
  toDocument: (value) => value,
  toText: (value) => value,
};

export const bool: ValueKind<boolean> = {
  hint: 'true|false',
  expected: 'true or false',
  fromText: parseBool,
  fromDocument: (value) => (typeof value === 'boolean' ? value : undefined),
  toDocument: (value) => value,
  toText: String,
};

export const int32 = integer(-(2 ** 31), 2 ** 31 - 1, 'a whole number from -2147483648 to 2147483647');
export const uint32 = integer(0, 2 ** 32 - 1, 'a whole number from 0 to 4294967295');

const FLOAT_MAX = 3.4028234663852886e38;

function float(value: number): number | undefined {
  return Number.isFinite(value) && Math.abs(value) <= FLOAT_MAX ? value : undefined;
}

export const float32: ValueKind<number> = {
  hint: 'number',
  expected: 'a number',
  fromText: (text) => (/^[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?$/.test(text) ? float(Number(text)) : undefined),
  fromDocument: (value) => (typeof value === 'number' ? float(value) : undefined),
  toDocument: (value) => value,
  toText: String,
};

export const duration: ValueKind<Duration> = {
  hint: 'duration',
  expected: 'a duration with a unit, such as "30s" or "1h30m"',
  fromText: parseDuration,
  fromDocument: (value) => (typeof value === 'string' ? parseDuration(value) : undefined),
  toDocument: formatDuration,
  toText: formatDuration,
};

/** Only logging.flushFrequency: a bare number there is nanoseconds. */
export const durationOrNanoseconds: ValueKind<Duration> = {
  ...duration,
  expected: 'a duration such as "5s", or a whole number of nanoseconds',
  fromDocument: (value) =>
    typeof value === 'number' && Number.isInteger(value) ? value / 1e6 : duration.fromDocument(value),
};

export const strings: ValueKind<readonly string[]> = {
  hint: 'list',
  expected: 'a list of strings',
  fromText: (text) => (text === '' ? [] : text.split(',')),
  fromDocument: (value) =>
    Array.isArray(value) && value.every((item): item is string => typeof item === 'string') ? value : undefined,
  toDocument: (value) => value,
  toText: (value) => value.join(','),
  merge: (earlier, later) => [...earlier, ...later],
};

/** A Kubernetes quantity, kept as it was written; a bare number is bytes. */
const QUANTITY = /^[+-]?(\d+\.?\d*|\.\d+)([EPTGMk]i?|Ki|[munKi]|[eE][+-]?\d+)?$/;

export const quantity: ValueKind<string> = {
  hint: 'quantity',
  expected: 'a quantity such as "0", "4096" or "64Ki"',
  fromText: (text) => (QUANTITY.test(text) ? text : undefined),
  fromDocument: (value) => {
    const text = typeof value === 'number' ? String(value) : value;
    return typeof text === 'string' && QUANTITY.test(text) ? text : undefined;
  },
  toDocument: (value) => value,
  toText: (value) => value,
};

function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

export const gates: ValueKind<FeatureGateSettings> = {
  hint: 'A=true,B=false',
  expected: 'feature gates such as "A=true,B=false"',
  fromText: (text) => {
    const settings = new Map<string, boolean>();
    for (const entry of text.split(',').filter((part) => part.trim() !== '')) {
      const equals = entry.indexOf('=');
      const value = parseBool(entry.slice(equals + 1).trim());
      if (equals <= 0 || value === undefined) return undefined;
      settings.set(entry.slice(0, equals).trim(), value);
    }
    return Object.fromEntries(settings);
  },
  fromDocument: (value) => {
    if (!isRecord(value)) return undefined;
    const entries = Object.entries(value);
    return entries.every((entry): entry is [string, boolean] => typeof entry[1] === 'boolean')
      ? Object.fromEntries(entries)
      : undefined;
  },
  toDocument: (value) => value,
  toText: (value) =>
    Object.entries(value)
      .map(([name, enabled]) => `${name}=${enabled}`)
      .join(','),
  merge: (earlier, later) => ({ ...earlier, ...later }),
};

function vmoduleFromText(text: string): VModule[] | undefined {
  const modules: VModule[] = [];
  for (const entry of text.split(',').filter((part) => part !== '')) {
    const equals = entry.lastIndexOf('=');
    const verbosity = uint32.fromText(entry.slice(equals + 1));
    if (equals <= 0 || verbosity === undefined) return undefined;
    modules.push({ filePattern: entry.slice(0, equals), verbosity });
  }
  return modules;
}

function vmoduleFromDocument(value: unknown): VModule | undefined {
  if (!isRecord(value)) return undefined;
  const { filePattern, verbosity, ...rest } = value;
  const level = uint32.fromDocument(verbosity);
  if (typeof filePattern !== 'string' || level === undefined || Object.keys(rest).length > 0) return undefined;
  return { filePattern, verbosity: level };
}

export const vmodule: ValueKind<readonly VModule[]> = {
  hint: 'pattern=N,...',
  expected: 'patterns with a verbosity each: "pattern=N,..." as a flag, {filePattern, verbosity} in a file',
  fromText: vmoduleFromText,
  fromDocument: (value) => {
    if (!Array.isArray(value)) return undefined;
    const modules = value.map(vmoduleFromDocument);
    return modules.every((module) => module !== undefined) ? modules : undefined;
  },
  toDocument: (value) => value.map(({ filePattern, verbosity }) => ({ filePattern, verbosity })),
  toText: (value) => value.map(({ filePattern, verbosity }) => `${filePattern}=${verbosity}`).join(','),
  merge: (earlier, later) => [...earlier, ...later],
};
