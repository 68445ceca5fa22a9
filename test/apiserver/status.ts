/** A metav1.Status as the real server returns it. Thrown to reject a request. */
export class StatusError extends Error {
  readonly code: number;
  readonly reason: string;
  readonly retryAfterSeconds: number | undefined;

  constructor(code: number, reason: string, message: string, retryAfterSeconds?: number) {
    super(message);
    this.code = code;
    this.reason = reason;
    this.retryAfterSeconds = retryAfterSeconds;
  }

  toStatus(): Readonly<Record<string, unknown>> {
    const details =
      this.retryAfterSeconds === undefined ? {} : { details: { retryAfterSeconds: this.retryAfterSeconds } };
    return {
      kind: 'Status',
      apiVersion: 'v1',
      metadata: {},
      status: 'Failure',
      message: this.message,
      reason: this.reason,
      ...details,
      code: this.code,
    };
  }
}

export function badRequest(message: string): StatusError {
  return new StatusError(400, 'BadRequest', message);
}

export function expired(message = 'The resourceVersion for the provided watch is too old.'): StatusError {
  return new StatusError(410, 'Expired', message);
}

export function invalid(message: string): StatusError {
  return new StatusError(422, 'Invalid', message);
}

export function notFound(message = 'the server could not find the requested resource'): StatusError {
  return new StatusError(404, 'NotFound', message);
}
