import { bytes, integer, mapped, message, readMessage, text } from './message-table.ts';
import { PROTOBUF } from './media-type.ts';
import { WireError } from './wire-reader.ts';

// k8s.io/apimachinery/pkg/runtime/generated.proto and pkg/apis/meta/v1/generated.proto

/** What every object and list begins with, outside of the objects that hold them. */
export const MAGIC = Buffer.from('k8s\0');

export const NO_BYTES = Buffer.alloc(0);

/** Field 2 of runtime.Unknown, the object, of wire type "length". */
export const RAW_TAG = 0x12;

export const UNKNOWN = message('Unknown', {
  1: ['kind', mapped(message('TypeMeta', { 2: ['kind', text] }), ({ kind = '' }) => kind)],
  2: ['raw', bytes],
  3: ['contentEncoding', text],
  4: ['contentType', text],
});

export function checkContent({
  contentEncoding = '',
  contentType = '',
}: Pick<ReturnType<typeof UNKNOWN.empty>, 'contentEncoding' | 'contentType'>): void {
  if (contentEncoding !== '') throw new WireError(`the object has the encoding ${JSON.stringify(contentEncoding)}`);
  if (contentType !== '' && contentType !== PROTOBUF)
    throw new WireError(`the object has the type ${JSON.stringify(contentType)}`);
}

/** Returns the kind and the bytes of an object. Throws a WireError. */
export function openEnvelope(envelope: Buffer): { readonly kind: string; readonly raw: Buffer } {
  if (!hasMagic(envelope)) throw new WireError('the object does not begin with "k8s\\0"');
  const unknown = readMessage(envelope.subarray(MAGIC.length), UNKNOWN);
  checkContent(unknown);
  const { kind = '', raw = NO_BYTES } = unknown;
  return { kind, raw };
}

export function hasMagic(bytes: Buffer): boolean {
  return bytes.subarray(0, MAGIC.length).equals(MAGIC);
}

export const STATUS = message('Status', {
  3: ['message', text],
  4: ['reason', text],
  5: ['details', message('StatusDetails', { 5: ['retryAfterSeconds', integer] })],
  // 0 means absent: the JSON has no code then.
  6: ['code', mapped(integer, (code) => (code === 0 ? undefined : code))],
});

/** The object has its envelope. */
export const WATCH_EVENT = message('WatchEvent', {
  1: ['type', text],
  2: ['object', mapped(message('RawExtension', { 1: ['raw', bytes] }), ({ raw }) => raw)],
});

export const LIST_META = message('ListMeta', { 2: ['resourceVersion', text], 3: ['continue', text] });
