import type { Log } from '../observe/log.ts';
import type { Failure } from './failure.ts';

/** Credentials concern every watch of a client at once: what is wrong with them is said once for all of them, and once that it is over. */
export class CredentialReport {
  readonly #log: Log;
  readonly #refused = new Set<string>();
  #said: Failure['kind'] | undefined;

  constructor(log: Log) {
    this.#log = log;
  }

  failed(plural: string, kind: Failure['kind'], sentence: string): void {
    if (kind === this.#said) this.#log.debug(2, `${plural}: ${sentence}`);
    else this.#log.error(sentence);
    this.#said = kind;
    this.#refused.add(plural);
  }

  /** Said when the last watch goes on: until then one of them may still be refused. */
  recovered(plural: string): void {
    if (!this.#refused.delete(plural) || this.#refused.size > 0) return;
    this.#said = undefined;
    this.#log.info('the API server accepts our credentials again');
  }
}

/**
 * Says once what is wrong with the connection, not at each attempt, and once that it is over. Each line tells the reader what to
 * check.
 */
export class FailureReport {
  readonly #plural: string;
  readonly #log: Log;
  readonly #credentials: CredentialReport;
  #said: string | undefined;

  constructor(plural: string, log: Log, credentials: CredentialReport) {
    this.#plural = plural;
    this.#log = log;
    this.#credentials = credentials;
  }

  failed(failure: Failure, server: string, delayMs: number): void {
    const sentence = this.#sentence(failure, server);
    if (failure.kind === 'unauthorized' || failure.kind === 'credentials')
      return this.#credentials.failed(this.#plural, failure.kind, sentence);
    // The text of these varies with each request; what is wrong does not.
    const key = failure.kind === 'unavailable' || failure.kind === 'garbled' ? sentence : failure.kind;
    const again = `next attempt in ${(delayMs / 1000).toFixed(1)} s`;
    if (key === this.#said) this.#log.debug(2, `${sentence}; ${again}`);
    else if (failure.kind === 'forbidden') this.#log.error(sentence);
    else this.#log.warn(`${sentence}; ${again}`);
    this.#said = key;
  }

  /** The server answers again. */
  recovered(): void {
    this.#credentials.recovered(this.#plural);
    if (this.#said === undefined) return;
    this.#said = undefined;
    this.#log.info(`${this.#plural} are followed again`);
  }

  #sentence({ kind, message }: Failure, server: string): string {
    const plural = this.#plural;
    switch (kind) {
      case 'unauthorized':
        return `the API server ${server} does not accept our credentials (401: ${message}): check the token or client certificate of the kubeconfig or service account; it is read again at each attempt`;
      case 'credentials':
        return `our credentials cannot be used: ${message}: check the exec plugin, token file or certificates of the kubeconfig or service account; they are read again at each attempt`;
      case 'forbidden':
        return `the API server does not allow us to list and watch ${plural} (403: ${message}): our user needs the verbs list and watch on ${plural} at the cluster scope (a ClusterRole with them, and a ClusterRoleBinding); attempts go on`;
      case 'refused':
        return `the API server refuses our request for ${plural}: ${message}`;
      case 'expired':
        return `our version of ${plural} has expired on the API server: ${message}`;
      case 'throttled':
        return `the API server asks us to slow down (429) with ${plural}: ${message}`;
      case 'garbled':
        return `the API server ${server} sent something for ${plural} that cannot be read: ${message}`;
      case 'unavailable':
        return `cannot follow ${plural} at the API server ${server}: ${message}`;
    }
  }
}
