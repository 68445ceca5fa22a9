import type { Log } from '../observe/log.ts';
import type { Failure } from './failure.ts';

/**
 * Says once what is wrong with the connection, not at each attempt, and once that it is over. Each line tells the reader what to
 * check.
 */
export class FailureReport {
  readonly #plural: string;
  readonly #log: Log;
  #said: string | undefined;

  constructor(plural: string, log: Log) {
    this.#plural = plural;
    this.#log = log;
  }

  failed(failure: Failure, server: string, delayMs: number): void {
    const sentence = this.#sentence(failure, server);
    // The text of these varies with each request; what is wrong does not.
    const key = failure.kind === 'unavailable' || failure.kind === 'garbled' ? sentence : failure.kind;
    const again = `next attempt in ${(delayMs / 1000).toFixed(1)} s`;
    if (key === this.#said) this.#log.debug(2, `${sentence}; ${again}`);
    else if (failure.kind === 'unauthorized' || failure.kind === 'forbidden') this.#log.error(sentence);
    else this.#log.warn(`${sentence}; ${again}`);
    this.#said = key;
  }

  /** The server answers again. */
  recovered(): void {
    if (this.#said === undefined) return;
    this.#said = undefined;
    this.#log.info(`${this.#plural} are followed again`);
  }

  #sentence({ kind, message }: Failure, server: string): string {
    const plural = this.#plural;
    switch (kind) {
      case 'unauthorized':
        return `the API server ${server} does not accept our credentials (401: ${message}): check the token or client certificate of the kubeconfig or service account; it is read again at each attempt`;
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
