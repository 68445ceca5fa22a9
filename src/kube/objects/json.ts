import { EMPTY, trimCapacity } from '../../base/trim-capacity.ts';

/** Readers of untrusted JSON. They treat a value of the wrong type as absent, and never throw. */
export type JsonRecord = Readonly<Record<string, unknown>>;

const NO_RECORD: JsonRecord = Object.freeze({});

export function isRecord(value: unknown): value is JsonRecord {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

export function recordOf(value: unknown): JsonRecord {
  return isRecord(value) ? value : NO_RECORD;
}

/** Returns one shared object for all empty lists, because most lists of a Service are empty. */
export function listOf(value: unknown): readonly unknown[] {
  return Array.isArray(value) && value.length > 0 ? (value as readonly unknown[]) : EMPTY;
}

export function textOf(value: unknown): string | undefined {
  return typeof value === 'string' ? value : undefined;
}

/** Returns the fallback if the value is absent, empty or not a string. */
export function textOr(value: unknown, fallback: string): string {
  return typeof value === 'string' && value !== '' ? value : fallback;
}

export function integerOf(value: unknown): number | undefined {
  return typeof value === 'number' && Number.isSafeInteger(value) ? value : undefined;
}

export function booleanOf(value: unknown): boolean | undefined {
  return typeof value === 'boolean' ? value : undefined;
}

export function itemsOf<T>(value: unknown, read: (item: unknown) => T | undefined): readonly T[] {
  const list = listOf(value);
  if (list.length === 0) return EMPTY;
  const items = list.map(read);
  if (items.every((item) => item !== undefined)) return items;
  return trimCapacity(items.filter((item) => item !== undefined));
}

export function textsOf(value: unknown): readonly string[] {
  return itemsOf(value, textOf);
}
