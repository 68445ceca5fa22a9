/** Set by the EndpointSlice controller: when the Pod or Service changed that made it write the slice. */
export const TRIGGER_TIME_ANNOTATION = 'endpoints.kubernetes.io/last-change-trigger-time';

const RFC3339 = /^(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(\.\d{1,9})?(Z|[+-]\d\d:\d\d)$/;

/** Reads RFC 3339 with up to nanoseconds; milliseconds since 1970, with a fraction. undefined when it is no such time. */
export function parseTime(text: string): number | undefined {
  const parts = RFC3339.exec(text);
  if (parts === null) return undefined;
  const [, seconds = '', fraction = '', zone = ''] = parts;
  const time = Date.parse(`${seconds}${zone}`);
  return Number.isNaN(time) ? undefined : time + Number(`0${fraction}`) * 1000;
}
