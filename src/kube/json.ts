import { exact } from '../net/exact.ts';

/** Reads values out of untrusted JSON: a value of the wrong type reads as if it were absent. Nothing here throws. */
export type JsonRecord = Readonly<Record<string, unknown>>;

const NO_RECORD: JsonRecord = Object.freeze({});
const NO_ITEMS: readonly never[] = Object.freeze([]);

export function isRecord(value: unknown): value is JsonRecord {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

export function recordOf(value: unknown): JsonRecord {
  return isRecord(value) ? value : NO_RECORD;
}

/** The empty list is one shared object: most lists of most Services are empty. */
export function listOf(value: unknown): readonly unknown[] {
  return Array.isArray(value) && value.length > 0 ? (value as readonly unknown[]) : NO_ITEMS;
}

export function textOf(value: unknown): string | undefined {
  return typeof value === 'string' ? value : undefined;
}

/** A string, or the fallback when it is absent, empty or no string. */
export function textOr(value: unknown, fallback: string): string {
  return typeof value === 'string' && value !== '' ? value : fallback;
}

export function integerOf(value: unknown): number | undefined {
  return typeof value === 'number' && Number.isSafeInteger(value) ? value : undefined;
}

export function booleanOf(value: unknown): boolean | undefined {
  return typeof value === 'boolean' ? value : undefined;
}

/** The items that `read` could make sense of; the others are dropped. */
export function itemsOf<T>(value: unknown, read: (item: unknown) => T | undefined): readonly T[] {
  const list = listOf(value);
  if (list.length === 0) return NO_ITEMS;
  const items = list.map(read);
  if (items.every((item) => item !== undefined)) return items;
  return exact(items.filter((item) => item !== undefined));
}

export function textsOf(value: unknown): readonly string[] {
  return itemsOf(value, textOf);
}
