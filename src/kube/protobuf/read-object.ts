import type { Interner } from '../objects/interner.ts';
import { objectKey } from '../objects/source.ts';
import { readMessage } from './message-table.ts';
import type { ObjectDraft, ObjectMessage } from './object-meta.ts';
import { WireError } from './wire-reader.ts';

/** An object in the form of its JSON, with the fields of its table; or why its bytes are invalid, with what names it. */
export type ReadObject =
  | { readonly object: ObjectDraft; readonly reason?: undefined }
  | { readonly object: undefined; readonly reason: string };

/** Reads an object without its envelope. */
export function readObject(raw: Buffer, table: ObjectMessage, interner: Interner): ReadObject {
  const draft = table.empty();
  try {
    return { object: readMessage(raw, table, interner, draft) };
  } catch (error) {
    if (!(error instanceof WireError)) throw error;
    const { name = '', namespace = '' } = draft.metadata ?? {};
    const named = name === '' ? '' : ` ${namespace === '' ? name : objectKey({ namespace, name })}`;
    return { object: undefined, reason: `the bytes of the ${table.name}${named} are invalid: ${error.message}` };
  }
}
