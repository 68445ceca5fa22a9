import type { LogFields } from './log.ts';
import { escapeUnprintable } from '../../base/text/escape-unprintable.ts';
import { isSecretName, redact } from './printable.ts';

export type LogLevel = 'error' | 'warn' | 'info' | 'debug';

export interface LogEntry {
  readonly level: LogLevel;
  /** Level of a debug entry; 0 for other entries. */
  readonly verbosity: number;
  /** "" for none. */
  readonly component: string;
  /** "folder/file.ts:line" of the statement that logs. */
  readonly caller: string;
  readonly message: string;
  readonly fields: LogFields;
  /** Milliseconds since 1970. */
  readonly time: number;
}

const SEVERITY: Readonly<Record<LogLevel, string>> = { error: 'E', warn: 'W', info: 'I', debug: 'I' };

/** Formats a time as klog does: "1121 12:00:00.123456" in local time. */
function klogTime(time: number): string {
  const date = new Date(time);
  const two = (n: number): string => String(n).padStart(2, '0');
  const micros = String(Math.floor((time % 1000) * 1000)).padStart(6, '0');
  const day = `${two(date.getMonth() + 1)}${two(date.getDate())}`;
  return `${day} ${two(date.getHours())}:${two(date.getMinutes())}:${two(date.getSeconds())}.${micros}`;
}

/** Formats text as Go's strconv.Quote does, lists as JSON, numbers and booleans as they are. */
function klogValue(value: unknown): string {
  return typeof value === 'string' || Array.isArray(value) ? escapeUnprintable(JSON.stringify(value)) : String(value);
}

/**
 * Returns a line of klog's structured format: `I1122 00:15:45.962958    1234 file.ts:57] "message" key="value"`.
 * Newlines in text are escaped as \n: every entry is one line.
 */
export function klogLine({ level, component, caller, message, fields, time }: LogEntry): string {
  const file = caller.slice(caller.lastIndexOf('/') + 1);
  const head = `${SEVERITY[level]}${klogTime(time)} ${String(process.pid).padStart(7)} ${file}] `;
  const shown: [string, unknown][] = shownFields(fields);
  if (component !== '') shown.unshift(['logger', component]);
  return head + klogValue(redact(message)) + shown.map(([name, value]) => ` ${name}=${klogValue(value)}`).join('');
}

/** Returns one JSON object with `level` and the keys of Kubernetes' JSON format (ts in ms, logger, caller, msg, v). */
export function jsonLine({ level, verbosity, component, caller, message, fields, time }: LogEntry): string {
  const line = {
    ts: time,
    level,
    ...(component === '' ? {} : { logger: component }),
    caller,
    msg: redact(message),
    ...(level === 'info' || level === 'debug' ? { v: verbosity } : {}),
    ...Object.fromEntries(shownFields(fields)),
  };
  return escapeUnprintable(JSON.stringify(line, jsonNumber));
}

/** Writes numbers that JSON cannot represent (NaN, large integers) as text. */
function jsonNumber(_name: string, value: unknown): unknown {
  return typeof value === 'bigint' || (typeof value === 'number' && !Number.isFinite(value)) ? String(value) : value;
}

/** Returns the fields that have a value; hides credentials. */
function shownFields(fields: LogFields): [name: string, value: unknown][] {
  return Object.entries(fields).flatMap(([name, value]): [string, unknown][] => {
    if (value === undefined) return [];
    if (isSecretName(name)) return [[name, '[hidden]']];
    if (typeof value === 'string') return [[name, redact(value)]];
    return [[name, typeof value === 'object' ? value.map(redact) : value]];
  });
}
