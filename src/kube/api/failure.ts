import type { IncomingHttpHeaders } from 'node:http';
import { wantsTls } from './connection-text.ts';
import { integerOf, recordOf, textOr } from '../objects/json.ts';
import { hasMagic, openEnvelope, STATUS } from '../protobuf/envelope.ts';
import { readMessage } from '../protobuf/message-table.ts';

/** Why a list or a watch failed. */
export interface Failure {
  readonly kind:
    | 'expired' // 410: our resourceVersion is too old
    | 'credentials' // the credentials could not be read locally
    | 'unauthorized' // 401
    | 'forbidden' // 403
    | 'refused' // 400 or 422: the server does not know a parameter
    | 'unstreamable' // the server does not support WatchList
    | 'throttled' // 429
    | 'unavailable' // no connection, or any other status, such as 5xx
    | 'garbled'; // not a valid list or event
  readonly message: string;
  /** Delay in milliseconds that the server requested. */
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

/**
 * Errors of servers that do not support WatchList: servers without the feature reject its parameters (422), and servers
 * with an old etcd name the missing etcd feature (an ERROR event with code 500).
 */
const UNSTREAMABLE = /sendInitialEvents|resourceVersionMatch|RequestWatchProgress/;

/** Maximum accepted Retry-After: one header must not suspend updates for an hour. */
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
  return {
    kind: kindOf(code, textOr(record['reason'], ''), message),
    message,
    ...retryAfter(integerOf(recordOf(record['details'])['retryAfterSeconds'])),
  };
}

function kindOf(code: number, reason: string, message: string): Failure['kind'] {
  if (reason === 'Expired' || reason === 'Gone') return 'expired';
  if (UNSTREAMABLE.test(message)) return 'unstreamable';
  return KIND_OF_CODE[code] ?? 'unavailable';
}

/** Reads an HTTP response with an error status. Its body may be empty or a load balancer's HTML page. */
export function failureOfResponse(code: number, headers: IncomingHttpHeaders, body: Buffer): Failure {
  const tls = wantsTls(code, body.toString());
  if (tls !== undefined) return { kind: 'unavailable', message: tls };
  const fromBody = failureOfStatus({ ...recordOf(statusIn(body)), code });
  const seconds = Number(headers['retry-after']);
  return { ...fromBody, ...retryAfter(Number.isFinite(seconds) ? seconds : undefined) };
}

/** Returns the metav1.Status in either encoding; undefined if the body has none. */
function statusIn(body: Buffer): unknown {
  try {
    if (!hasMagic(body)) return JSON.parse(body.toString());
    const { kind, raw } = openEnvelope(body);
    return kind === STATUS.name ? readMessage(raw, STATUS) : undefined;
  } catch {
    // The status code is enough.
    return undefined;
  }
}
