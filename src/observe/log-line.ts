import type { LogFields } from './log.ts';
import { isSecretName, printable } from './printable.ts';

export type LogLevel = 'error' | 'warn' | 'info' | 'debug';

/** One thing to log, before it has a form. */
export interface LogEntry {
  readonly level: LogLevel;
  /** Of a debug entry; 0 otherwise. */
  readonly verbosity: number;
  readonly component: string;
  readonly message: string;
  readonly fields: LogFields;
  /** Milliseconds since 1970. */
  readonly time: number;
}

type Value = LogFields[string];

/** In the order of the names, so that the same thing always reads the same; undefined values are left out. */
function sortedFields(fields: LogFields): [name: string, value: Exclude<Value, undefined>][] {
  return Object.keys(fields)
    .sort()
    .flatMap((name): [string, Exclude<Value, undefined>][] => {
      const value = fields[name];
      if (value === undefined) return [];
      return [[name, isSecretName(name) ? '[hidden]' : value]];
    });
}

function quoted(text: string): string {
  return `"${printable(text).replaceAll('"', '\\"')}"`;
}

function textValue(value: Exclude<Value, undefined>): string {
  if (typeof value === 'string') return quoted(value);
  if (typeof value === 'object') return `[${value.map(quoted).join(',')}]`;
  return String(value);
}

const LETTER: Readonly<Record<LogLevel, string>> = { error: 'E', warn: 'W', info: 'I', debug: 'I' };

function two(n: number): string {
  return String(n).padStart(2, '0');
}

/** "1121 12:00:00.123456" in local time; microseconds, as klog has them. */
function stamp(time: number): string {
  const date = new Date(time);
  const micros = String(Math.floor((((time % 1000) + 1000) % 1000) * 1000)).padStart(6, '0');
  const clock = `${two(date.getHours())}:${two(date.getMinutes())}:${two(date.getSeconds())}`;
  return `${two(date.getMonth() + 1)}${two(date.getDate())} ${clock}.${micros}`;
}

/** `I1121 12:00:00.123456 reflector] The watch ended resource="services"`: klog's head with the component in the place of its file. */
export function textLine(entry: LogEntry): string {
  const component = entry.component === '' ? '' : `${printable(entry.component)}] `;
  const fields = sortedFields(entry.fields).map(([name, value]) => ` ${printable(name)}=${textValue(value)}`);
  return `${LETTER[entry.level]}${stamp(entry.time)} ${component}${printable(entry.message)}${fields.join('')}`;
}

function jsonValue(value: Exclude<Value, undefined>): unknown {
  if (typeof value === 'bigint') return value.toString();
  if (typeof value === 'string') return printable(value);
  if (typeof value === 'object') return value.map(printable);
  return Number.isFinite(value) || typeof value === 'boolean' ? value : String(value);
}

/** The names of the line's own keys: a field of that name gets a "_" in front. */
const RESERVED = new Set(['ts', 'level', 'v', 'logger', 'msg']);

/** One JSON object with the keys of Kubernetes' json format (ts in milliseconds, msg, v, logger), and the level. */
export function jsonLine(entry: LogEntry): string {
  const line: Record<string, unknown> = { ts: entry.time, level: entry.level };
  if (entry.level === 'info' || entry.level === 'debug') line['v'] = entry.verbosity;
  if (entry.component !== '') line['logger'] = printable(entry.component);
  line['msg'] = printable(entry.message);
  const fields = sortedFields(entry.fields).map(([name, value]): [string, unknown] => [
    printable(RESERVED.has(name) ? `_${name}` : name),
    jsonValue(value),
  ]);
  return JSON.stringify({ ...line, ...Object.fromEntries(fields) });
}
