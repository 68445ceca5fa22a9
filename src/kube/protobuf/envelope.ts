import { bytes, inner, integer, message, readMessage, text } from './message-table.ts';
import { PROTOBUF } from './media-type.ts';
import { WireError } from './wire-reader.ts';

// k8s.io/apimachinery/pkg/runtime/generated.proto and pkg/apis/meta/v1/generated.proto

/** What every object and list begins with, outside of the objects that hold them. */
export const MAGIC = Buffer.from('k8s\0');

class TypeMetaDraft {
  kind = '';
}

class UnknownDraft {
  kind = '';
  raw: Buffer = Buffer.alloc(0);
  contentEncoding = '';
  contentType = '';
}

/** Field 2 of runtime.Unknown, the object, of wire type "length". */
export const RAW_TAG = 0x12;

export const UNKNOWN = message('Unknown', UnknownDraft, {
  1: inner(
    message('TypeMeta', TypeMetaDraft, { 2: text((type, kind) => (type.kind = kind)) }),
    (unknown, { kind }) => (unknown.kind = kind),
  ),
  2: bytes((unknown, raw) => (unknown.raw = raw)),
  3: text((unknown, encoding) => (unknown.contentEncoding = encoding)),
  4: text((unknown, type) => (unknown.contentType = type)),
});

export function checkContent({ contentEncoding, contentType }: UnknownDraft): void {
  if (contentEncoding !== '') throw new WireError(`the object has the encoding ${JSON.stringify(contentEncoding)}`);
  if (contentType !== '' && contentType !== PROTOBUF)
    throw new WireError(`the object has the type ${JSON.stringify(contentType)}`);
}

/** Returns the kind and the bytes of an object. Throws a WireError. */
export function openEnvelope(envelope: Buffer): { readonly kind: string; readonly raw: Buffer } {
  if (!hasMagic(envelope)) throw new WireError('the object does not begin with "k8s\\0"');
  const unknown = readMessage(envelope.subarray(MAGIC.length), UNKNOWN);
  checkContent(unknown);
  return unknown;
}

export function hasMagic(bytes: Buffer): boolean {
  return bytes.subarray(0, MAGIC.length).equals(MAGIC);
}

class DetailsDraft {
  retryAfterSeconds: number | undefined;
}

class StatusDraft {
  message: string | undefined;
  reason: string | undefined;
  details: DetailsDraft | undefined;
  code: number | undefined;
}

export const STATUS = message('Status', StatusDraft, {
  3: text((status, words) => (status.message = words)),
  4: text((status, reason) => (status.reason = reason)),
  5: inner(
    message('StatusDetails', DetailsDraft, {
      5: integer((details, seconds) => (details.retryAfterSeconds = seconds)),
    }),
    (status, details) => (status.details = details),
  ),
  // 0 means absent: the JSON has no code then.
  6: integer((status, code) => (status.code = code === 0 ? undefined : code)),
});

class WatchEventDraft {
  type = '';
  /** With its envelope. */
  object: Buffer = Buffer.alloc(0);
}

class RawExtensionDraft {
  raw: Buffer = Buffer.alloc(0);
}

export const WATCH_EVENT = message('WatchEvent', WatchEventDraft, {
  1: text((event, type) => (event.type = type)),
  2: inner(
    message('RawExtension', RawExtensionDraft, { 1: bytes((extension, raw) => (extension.raw = raw)) }),
    (event, { raw }) => (event.object = raw),
  ),
});

class ListMetaDraft {
  resourceVersion = '';
  continue = '';
}

export const LIST_META = message('ListMeta', ListMetaDraft, {
  2: text((meta, version) => (meta.resourceVersion = version)),
  3: text((meta, token) => (meta.continue = token)),
});
