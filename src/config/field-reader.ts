import { didYouMean } from './value/nearest.ts';
import { fieldProblem, show } from './value/problem.ts';
import { isRecord } from './value/value-kind.ts';

export type RawFields = Readonly<Record<string, unknown>>;

/** Returns the path of a field or, given a number, of an item. */
export function pathOf(parent: string, child: string | number): string {
  if (typeof child === 'number') return `${parent}[${child}]`;
  return parent === '' ? child : `${parent}.${child}`;
}

/** Reads the fields of a document of one kind, and notes what is wrong with each. Reading goes on after a mistake. */
export class FieldReader {
  readonly mistakes: string[] = [];
  readonly warnings: string[] = [];
  readonly #kind: string;

  constructor(kind: string) {
    this.#kind = kind;
  }

  /** Notes a mistake. Returns undefined, which stands for the value that could not be read. */
  mistake(path: string, text: string): undefined {
    this.mistakes.push(fieldProblem(path, text, this.#kind));
  }

  /** Notes that the value is not what is wanted. */
  mismatch(path: string, wanted: string, value: unknown): undefined {
    return this.mistake(path, `want ${wanted}, got ${show(value)}`);
  }

  /** Returns the known fields of an object. A field that is null is absent, as in Go. Others get a warning. */
  fields(path: string, value: unknown, known: readonly string[]): RawFields | undefined {
    const { found, others } = this.#split(path, value, known);
    for (const name of others) {
      const where = show(`${this.#kind}.${pathOf(path, name)}`);
      this.warnings.push(`unknown field ${where}${didYouMean(name, known)}`);
    }
    return found;
  }

  /** Like fields(), but an unknown field is a mistake, because the object means something else without it. */
  strictFields(path: string, value: unknown, known: readonly string[]): RawFields | undefined {
    const { found, others } = this.#split(path, value, known);
    for (const name of others) this.mistake(path, `want only ${known.join(', ')}, got ${show(name)}`);
    return found;
  }

  /** Reads each item of a list, and leaves those out that cannot be read. */
  list<T>(path: string, value: unknown, wanted: string, read: (path: string, item: unknown) => T | undefined): T[] {
    if (!Array.isArray(value)) this.mismatch(path, wanted, value);
    const items: readonly unknown[] = Array.isArray(value) ? value : [];
    return items.map((item, index) => read(pathOf(path, index), item)).filter((item) => item !== undefined);
  }

  #split(
    path: string,
    value: unknown,
    known: readonly string[],
  ): { readonly found: RawFields | undefined; readonly others: readonly string[] } {
    if (!isRecord(value)) return { found: this.mismatch(path, 'an object', value), others: [] };
    const entries = Object.entries(value);
    return {
      found: Object.fromEntries(entries.filter(([name, item]) => known.includes(name) && item !== null)),
      others: entries.map(([name]) => name).filter((name) => !known.includes(name)),
    };
  }
}
