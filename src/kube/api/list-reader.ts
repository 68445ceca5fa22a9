import { errorText } from '../../base/text/error-text.ts';
import { ListScanner } from '../json/list-scanner.ts';
import type { Interner } from '../objects/interner.ts';
import { recordOf, textOr } from '../objects/json.ts';
import type { ObjectMeta } from '../objects/objects.ts';
import type { Trimmed } from '../objects/trim-objects.ts';
import { ListSplitter } from '../protobuf/list-splitter.ts';
import { isProtobuf } from '../protobuf/media-type.ts';
import { readObject } from '../protobuf/read-object.ts';
import { WireError } from '../protobuf/wire-reader.ts';
import type { Resource } from './resource.ts';

export interface PageEnd {
  /** Continue token of the next page; "" after the last. */
  readonly next: string;
  readonly resourceVersion: string;
}

/** Reads one page while it arrives. */
interface ListReader {
  feed(chunk: Buffer): string | undefined;
  /** Returns the metadata of the page, or why it is invalid. */
  end(): PageEnd | string;
}

/**
 * @param limit maximum size of an object
 * @param onItem is called with each object as it arrives
 */
export function listReader<T extends { readonly meta: ObjectMeta }>(
  contentType: string | undefined,
  resource: Resource<T>,
  interner: Interner,
  limit: number,
  onItem: (item: Trimmed<T>) => void,
): ListReader {
  return isProtobuf(contentType)
    ? protobufReader(resource, interner, limit, onItem)
    : jsonReader(limit, (value) => onItem(resource.trim(value, interner)));
}

function jsonReader(limit: number, onItem: (value: unknown) => void): ListReader {
  let syntaxError: string | undefined;
  const parse = (text: string): unknown => {
    try {
      return JSON.parse(text);
    } catch (error) {
      syntaxError = `the list is not valid JSON: ${errorText(error)}`;
      return undefined;
    }
  };
  const scanner = new ListScanner(limit, (text) => {
    const value = parse(text);
    if (syntaxError === undefined) onItem(value);
  });
  return {
    feed: (chunk) => (scanner.feed(chunk) ? syntaxError : `an object has more than ${limit} bytes`),
    end: () => {
      const metadata = recordOf(recordOf(parse(scanner.end()))['metadata']);
      if (syntaxError !== undefined) return syntaxError;
      return { next: textOr(metadata['continue'], ''), resourceVersion: textOr(metadata['resourceVersion'], '') };
    },
  };
}

function protobufReader<T extends { readonly meta: ObjectMeta }>(
  resource: Resource<T>,
  interner: Interner,
  limit: number,
  onItem: (item: Trimmed<T>) => void,
): ListReader {
  const { message } = resource;
  const splitter = new ListSplitter(`${message.name}List`, limit, (raw) => {
    const read = readObject(raw, message, interner);
    onItem(read.reason === undefined ? resource.trim(read.object, interner) : read);
  });
  const checked = <R>(act: () => R): R | string => {
    try {
      return act();
    } catch (error) {
      if (!(error instanceof WireError)) throw error;
      return `the list is not valid protobuf: ${error.message}`;
    }
  };
  return {
    feed: (chunk) =>
      checked(() => {
        splitter.feed(chunk);
        return undefined;
      }),
    end: () => checked(() => splitter.end()),
  };
}
