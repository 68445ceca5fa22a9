import type { IpFamily } from '../base/ip.ts';

/** When an endpoint was changed, as its EndpointSlice says. */
export interface TriggerTime {
  readonly family: IpFamily;
  /** Milliseconds since 1970. The clock that set the time may be ahead of ours. */
  readonly time: number;
}

const RFC3339 = /^(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(\.\d{1,9})?(Z|[+-]\d\d:\d\d)$/;

/** Parses an RFC 3339 time. Returns milliseconds since 1970, with a fraction; undefined if the text is not valid. */
export function parseTime(text: string): number | undefined {
  const parts = RFC3339.exec(text);
  if (parts === null) return undefined;
  const [, seconds = '', fraction = '', zone = ''] = parts;
  const time = Date.parse(`${seconds}${zone}`);
  return Number.isNaN(time) ? undefined : time + Number(`0${fraction}`) * 1000;
}
