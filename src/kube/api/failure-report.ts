import type { Log } from '../../observe/log/log.ts';
import type { Failure } from './failure.ts';

/** Logs a credential problem once for all watches of a client, and logs its end. */
export class CredentialReport {
  readonly #log: Log;
  readonly #refused = new Set<string>();
  #logged: Failure['kind'] | undefined;

  constructor(log: Log) {
    this.#log = log;
  }

  failed(plural: string, kind: Failure['kind'], text: string): void {
    if (kind === this.#logged) this.#log.debug(2, `${plural}: ${text}`);
    else this.#log.error(text);
    this.#logged = kind;
    this.#refused.add(plural);
  }

  /** Logs only after the last affected watch has recovered, because the server may still reject another one. */
  recovered(plural: string): void {
    if (!this.#refused.delete(plural) || this.#refused.size > 0) return;
    this.#logged = undefined;
    this.#log.info('credentials accepted by the API server again');
  }
}

/** Logs a failure of one watch once instead of at each attempt, and logs its end. Each line says what to check. */
export class FailureReport {
  readonly #plural: string;
  readonly #log: Log;
  readonly #credentials: CredentialReport;
  #logged: string | undefined;
  #slowLogged = false;

  constructor(plural: string, log: Log, credentials: CredentialReport) {
    this.#plural = plural;
    this.#log = log;
    this.#credentials = credentials;
  }

  failed(failure: Failure, server: string, delayMs: number): void {
    const text = this.#textOf(failure, server);
    if (failure.kind === 'unauthorized' || failure.kind === 'credentials')
      return this.#credentials.failed(this.#plural, failure.kind, text);
    // For other kinds compare only the kind: their messages vary between requests although the cause is the same.
    const key = failure.kind === 'unavailable' || failure.kind === 'garbled' ? text : failure.kind;
    const retry = `next attempt in ${(delayMs / 1000).toFixed(1)} s`;
    if (key === this.#logged) this.#log.debug(2, `${text}; ${retry}`);
    else if (failure.kind === 'forbidden') this.#log.error(text);
    else this.#log.warn(`${text}; ${retry}`);
    this.#logged = key;
  }

  /** Logs, once, that a request has not failed but has received no data for a long time. */
  slow(reason: string, server: string): void {
    if (this.#slowLogged) return;
    this.#slowLogged = true;
    this.#log.warn(`waiting for ${this.#plural} from the API server ${server}: ${reason}`);
  }

  /** Logs that data arrived after a warning by `slow`. */
  arrived(): void {
    if (!this.#slowLogged) return;
    this.#slowLogged = false;
    if (this.#logged === undefined) this.#log.info(`${this.#plural} received from the API server`);
  }

  /** Logs that the watch receives data again after a failure. */
  recovered(): void {
    this.#credentials.recovered(this.#plural);
    this.arrived();
    if (this.#logged === undefined) return;
    this.#logged = undefined;
    this.#log.info(`watch on ${this.#plural} re-established`);
  }

  #textOf({ kind, message }: Failure, server: string): string {
    const plural = this.#plural;
    switch (kind) {
      case 'unauthorized':
        return `the API server ${server} rejected our credentials (401: ${message}): check the token or client certificate of the kubeconfig or service account; it is read again on each attempt`;
      case 'credentials':
        return `failed to load credentials: ${message}: check the exec plugin, token file or certificates of the kubeconfig or service account; they are read again on each attempt`;
      case 'forbidden':
        return `not allowed to list and watch ${plural} (403: ${message}): grant our user the verbs list and watch on ${plural} by a ClusterRole and a ClusterRoleBinding; retrying`;
      case 'refused':
      case 'unstreamable':
        return `the API server refused our request for ${plural}: ${message}`;
      case 'expired':
        return `resourceVersion of ${plural} expired, listing again: ${message}`;
      case 'throttled':
        return `requests for ${plural} throttled by the API server (429): ${message}`;
      case 'garbled':
        return `unreadable response for ${plural} from the API server ${server}: ${message}`;
      case 'unavailable':
        return `failed to list or watch ${plural} at the API server ${server}: ${message}`;
    }
  }
}
