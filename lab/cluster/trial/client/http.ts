import type { FailureKind, Target } from './lines.ts';

/** A connection or a request that takes longer has failed. */
export const TIME_LIMIT_MS = 5000;
/** An answer that takes longer is slow. A lost SYN is sent again after a second. */
export const SLOW_MS = 1000;

const KINDS: Readonly<Record<string, FailureKind>> = {
  ECONNREFUSED: 'refused',
  ECONNRESET: 'reset',
  EPIPE: 'reset',
  EHOSTUNREACH: 'unreachable',
  ENETUNREACH: 'unreachable',
  ETIMEDOUT: 'timeout',
};

export function kindOf(code: string): FailureKind {
  return KINDS[code] ?? 'other';
}

/** Asks agnhost for its host name, which is the name of its Pod. */
export function request({ address, port }: Target, connection: 'close' | 'keep-alive'): string {
  const host = address.includes(':') ? `[${address}]` : address;
  return `GET /hostname HTTP/1.1\r\nHost: ${host}:${port}\r\nConnection: ${connection}\r\n\r\n`;
}

export interface Response {
  readonly status: number;
  readonly body: string;
}

/** Returns undefined while the response is not complete. */
export function parseResponse(text: string): Response | undefined {
  const end = text.indexOf('\r\n\r\n');
  if (end < 0) return undefined;
  const head = text.slice(0, end);
  const [, length] = /^content-length: *(\d+)$/im.exec(head) ?? [];
  const body = text.slice(end + 4);
  if (length === undefined || body.length < Number(length)) return undefined;
  return { status: Number(head.split(' ', 2)[1]), body: body.slice(0, Number(length)) };
}
