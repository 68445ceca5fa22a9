import { type Cidr, formatCidr, parseCidr } from '../../base/cidr.ts';
import { ENDPOINT_CHECK_MODES, type EndpointCheckMode, isEndpointCheckMode } from '../../base/endpoint-check-mode.ts';
import { type LabelSelector, parseLabelSelector } from '../../base/label-selector.ts';
import { type Port, toPort } from '../../base/port.ts';
import {
  SERVICE_ANNOTATIONS,
  type ServiceAnnotation,
  isServiceAnnotation,
} from '../../base/service/service-annotations.ts';
import { type Duration, formatDuration, parseDuration } from '../../base/duration.ts';

/**
 * Parses and formats one kind of value, as the text of a flag and as a value of a YAML or JSON document. Both parsers
 * return undefined for invalid input.
 */
export interface ValueKind<T> {
  /** Placeholder of the value in --help: "<duration>". */
  readonly hint: string;
  /** Completes the sentence "want ...". */
  readonly expected: string;
  /** Value of a flag given without one ("--cleanup" means "--cleanup=true"). If absent, a value is required. */
  readonly bare?: string;
  fromText(text: string): T | undefined;
  fromDocument(value: unknown): T | undefined;
  toDocument(value: T): unknown;
  toText(value: T): string;
  /** Combines the values of a repeated flag. If absent, the last value is used. */
  merge?(earlier: T, later: T): T;
}

/** One entry of --vmodule: components whose name matches the pattern log at this verbosity. */
export interface VModule {
  readonly filePattern: string;
  readonly verbosity: number;
}

export type FeatureGateSettings = Readonly<Record<string, boolean>>;

/** Completes a kind. By default, a document cannot contain its value, and the value is written unchanged. */
function kindOf<T>(kind: Pick<ValueKind<T>, 'hint' | 'expected' | 'fromText'> & Partial<ValueKind<T>>): ValueKind<T> {
  return { fromDocument: () => undefined, toDocument: (value) => value, toText: String, ...kind };
}

export function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

function append<T>(earlier: readonly T[], later: readonly T[]): readonly T[] {
  return [...earlier, ...later];
}

function integer(min: number, max: number, expected: string): ValueKind<number> {
  const inRange = (n: number): number | undefined => (Number.isInteger(n) && n >= min && n <= max ? n : undefined);
  return kindOf({
    hint: 'number',
    expected,
    // pflag parses integers with base 0, so the prefixes 0x, 0o and 0b are valid.
    fromText: (text) =>
      /^[+-]?(0[xX][\da-fA-F]+|0[oO][0-7]+|0[bB][01]+|\d+)$/.test(text) ? inRange(signed(text)) : undefined,
    fromDocument: (value) => (typeof value === 'number' ? inRange(value) : undefined),
  });
}

function signed(text: string): number {
  const magnitude = text.replace(/^[+-]/, '');
  return text.startsWith('-') ? -Number(magnitude) || 0 : Number(magnitude);
}

function parseBool(text: string): boolean | undefined {
  if (/^(1|t|T|TRUE|true|True)$/.test(text)) return true;
  return /^(0|f|F|FALSE|false|False)$/.test(text) ? false : undefined;
}

export const string = kindOf<string>({
  hint: 'text',
  expected: 'a string',
  fromText: (text) => text,
  fromDocument: (value) => (typeof value === 'string' ? value : undefined),
});

export const labelSelector = kindOf<LabelSelector | undefined>({
  hint: 'selector',
  expected: 'a label selector such as tier=front, app in (web,api), !test',
  fromText: parseLabelSelector,
  toText: (selector) => selector?.text ?? '',
});

/** A boolean flag that requires a value, which may be the next argument. */
export const boolWithValue = kindOf<boolean>({
  hint: 'true|false',
  expected: 'true or false',
  fromText: parseBool,
  fromDocument: (value) => (typeof value === 'boolean' ? value : undefined),
});

export const bool: ValueKind<boolean> = { ...boolWithValue, bare: 'true' };

/** Like kube-proxy, --version accepts a version that the program should report. */
export const versionRequest = kindOf<string>({
  hint: 'true|raw|vX.Y.Z',
  expected: 'true, false, raw or a version such as v1.2.3',
  bare: 'true',
  fromText: (text) => (/^(true|false|raw|v\d+\.\d+\.\d+.*)$/.test(text) ? text : undefined),
});

export const int32 = integer(-(2 ** 31), 2 ** 31 - 1, 'a whole number from -2147483648 to 2147483647');
export const uint32 = integer(0, 2 ** 32 - 1, 'a whole number from 0 to 4294967295');

const FLOAT_MAX = 3.4028234663852886e38;

function float(value: number): number | undefined {
  return Number.isFinite(value) && Math.abs(value) <= FLOAT_MAX ? value : undefined;
}

export const float32 = kindOf<number>({
  hint: 'number',
  expected: 'a number',
  fromText: (text) => (/^[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?$/.test(text) ? float(Number(text)) : undefined),
  fromDocument: (value) => (typeof value === 'number' ? float(value) : undefined),
});

export const duration = kindOf<Duration>({
  hint: 'duration',
  expected: 'a duration with a unit, such as "30s" or "1h30m"',
  fromText: parseDuration,
  fromDocument: (value) => (typeof value === 'string' ? parseDuration(value) : undefined),
  toDocument: formatDuration,
  toText: formatDuration,
});

/** For logging.flushFrequency only: a plain number means nanoseconds. */
export const durationOrNanoseconds: ValueKind<Duration> = {
  ...duration,
  expected: 'a duration such as "5s", or a whole number of nanoseconds',
  fromDocument: (value) =>
    typeof value === 'number' && Number.isInteger(value) ? value / 1e6 : duration.fromDocument(value),
};

export const stringList = kindOf<readonly string[]>({
  hint: 'list',
  expected: 'a list of strings',
  fromText: (text) => (text === '' ? [] : text.split(',')),
  fromDocument: (value) =>
    Array.isArray(value) && value.every((item): item is string => typeof item === 'string') ? value : undefined,
  toText: (value) => value.join(','),
  merge: append,
});

/** A list of CIDRs in a flag. Host bits are cleared. */
export const cidrs = kindOf<readonly Cidr[]>({
  hint: 'cidrs',
  expected: 'CIDRs such as "10.0.0.0/8,fd00::/64"',
  fromText: (text) => {
    const parsed = stringList.fromText(text)?.map(parseCidr);
    return parsed?.every((cidr) => cidr !== undefined) === true ? parsed : undefined;
  },
  toText: (value) => value.map(formatCidr).join(','),
  merge: append,
});

/** "none", or names of annotations of ours separated by commas. */
export const annotations = kindOf<readonly ServiceAnnotation[]>({
  hint: 'none|names',
  expected: `none, or some of ${SERVICE_ANNOTATIONS.join(', ')}`,
  fromText: (text) => {
    const names = text === 'none' ? [] : text.split(',');
    return names.every(isServiceAnnotation) ? names : undefined;
  },
  toText: (names) => names.join(',') || 'none',
  merge: append,
});

export const endpointCheckMode = kindOf<EndpointCheckMode>({
  hint: ENDPOINT_CHECK_MODES.join('|'),
  expected: `one of ${ENDPOINT_CHECK_MODES.join(', ')}`,
  fromText: (text) => (isEndpointCheckMode(text) ? text : undefined),
  // In YAML 1.1, off without quotes is false.
  fromDocument: (value) => {
    if (value === false) return 'off';
    return typeof value === 'string' && isEndpointCheckMode(value) ? value : undefined;
  },
});

/** A range of ports, including both ends. */
export interface PortRange {
  readonly from: Port;
  readonly to: Port;
}

export const portRange = kindOf<PortRange>({
  hint: 'from-to',
  expected: '<from>-<to> with ports from 1 to 65535, the lower one first',
  fromText: (text) => {
    const [from, to] = (/^(\d{1,5})-(\d{1,5})$/.exec(text)?.slice(1) ?? []).map((port) => toPort(Number(port)));
    return from === undefined || to === undefined || from > to ? undefined : { from, to };
  },
  toText: ({ from, to }) => `${from}-${to}`,
});

/** A Kubernetes quantity, which is kept as written; a plain number means bytes. */
const QUANTITY = /^[+-]?(\d+\.?\d*|\.\d+)([EPTGMk]i?|Ki|[munKi]|[eE][+-]?\d+)?$/;

export const quantity = kindOf<string>({
  hint: 'quantity',
  expected: 'a quantity such as "0", "4096" or "64Ki"',
  fromText: (text) => (QUANTITY.test(text) ? text : undefined),
  fromDocument: (value) => {
    const text = typeof value === 'number' ? String(value) : value;
    return typeof text === 'string' && QUANTITY.test(text) ? text : undefined;
  },
});

export const gates = kindOf<FeatureGateSettings>({
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
  fromDocument: (value) =>
    isRecord(value) && Object.values(value).every((enabled) => typeof enabled === 'boolean')
      ? (value as FeatureGateSettings)
      : undefined,
  toText: (value) =>
    Object.entries(value)
      .map(([name, enabled]) => `${name}=${enabled}`)
      .join(','),
  merge: (earlier, later) => ({ ...earlier, ...later }),
});

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

export const vmodule = kindOf<readonly VModule[]>({
  hint: 'pattern=N,...',
  expected: 'patterns with a verbosity each: "pattern=N,..." as a flag, {filePattern, verbosity} in a file',
  fromText: vmoduleFromText,
  fromDocument: (value) => {
    if (!Array.isArray(value)) return undefined;
    const modules = value.map(vmoduleFromDocument);
    return modules.every((module) => module !== undefined) ? modules : undefined;
  },
  toText: (value) => value.map(({ filePattern, verbosity }) => `${filePattern}=${verbosity}`).join(','),
  merge: append,
});
