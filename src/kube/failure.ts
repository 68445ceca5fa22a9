import type { IncomingHttpHeaders } from 'node:http';
import { integerOf, recordOf, textOr } from './json.ts';

/**
 * Why a list or a watch did not go on. expired: our resourceVersion is too old (410). refused: the server does not know a
 * parameter (400, 422). credentials: ours could not even be read. unavailable: no connection, 5xx. garbled: what came is no JSON event.
 */
export interface Failure {
  readonly kind:
    'expired' | 'credentials' | 'unauthorized' | 'forbidden' | 'refused' | 'throttled' | 'unavailable' | 'garbled';
  readonly message: string;
  /** When the server said how long to wait. */
  readonly retryAfterMs?: number;
}

const KIND_OF_CODE: Readonly<Record<number, Failure['kind']>> = {
  400: 'refused',
  401: 'unauthorized',
  403: 'forbidden',
  410: 'expired',
  422: 'refused',
  429: 'throttled',
};

/** Longer waits than this are not honoured: a proxy must not sleep for an hour because of one header. */
const MAX_RETRY_AFTER_SECONDS = 120;

function retryAfter(seconds: number | undefined): { readonly retryAfterMs?: number } {
  if (seconds === undefined || !(seconds > 0)) return {};
  return { retryAfterMs: Math.min(seconds, MAX_RETRY_AFTER_SECONDS) * 1000 };
}

/** Reads a metav1.Status: the body of a refused request, or the object of an ERROR event. */
export function failureOfStatus(status: unknown): Failure {
  const record = recordOf(status);
  const code = integerOf(record['code']) ?? 500;
  const message = textOr(record['message'], textOr(record['reason'], `status ${code}`));
  const kind =
    record['reason'] === 'Expired' || record['reason'] === 'Gone' ? 'expired' : (KIND_OF_CODE[code] ?? 'unavailable');
  return { kind, message, ...retryAfter(integerOf(recordOf(record['details'])['retryAfterSeconds'])) };
}

/** Reads an HTTP response that is no success. */
export function failureOfResponse(code: number, headers: IncomingHttpHeaders, body: string): Failure {
  let status: unknown;
  try {
    status = JSON.parse(body);
  } catch {
    // A load balancer's page, or nothing: the code says enough.
  }
  const fromBody = failureOfStatus({ ...recordOf(status), code });
  const seconds = Number(headers['retry-after']);
  return { ...fromBody, ...retryAfter(Number.isFinite(seconds) ? seconds : undefined) };
}
