export const JSON_TYPE = 'application/json';
export const PROTOBUF = 'application/vnd.kubernetes.protobuf';

/** Returns the type in a Content-Type header without its parameters; "" if the header is absent. */
function mediaType(header: string | undefined): string {
  return (header ?? '').split(';')[0]?.trim().toLowerCase() ?? '';
}

export function isProtobuf(contentType: string | undefined): boolean {
  return mediaType(contentType) === PROTOBUF;
}

/** Whether a response with this Content-Type can be read. One without a type is taken for JSON. */
export function isReadable(contentType: string | undefined): boolean {
  return ['', JSON_TYPE, PROTOBUF].includes(mediaType(contentType));
}
