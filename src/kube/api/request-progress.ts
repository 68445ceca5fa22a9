import type { ClientRequest } from 'node:http';
import { isIP } from 'node:net';

function seconds(milliseconds: number): string {
  return `${Number((milliseconds / 1000).toFixed(1))} s`;
}

/** Tracks what a request to the API server is waiting for, for the text of a timeout error. */
export class RequestProgress {
  readonly #url: URL;
  readonly #throughProxy: boolean;
  #phase: 'credentials' | 'proxy' | 'name' | 'tcp' | 'tls' | 'answer' = 'credentials';

  constructor(url: URL, throughProxy: boolean) {
    this.#url = url;
    this.#throughProxy = throughProxy;
  }

  /** Whether the request waits for its connection through the proxy. */
  get atProxy(): boolean {
    return this.#phase === 'proxy';
  }

  /** Whether the connection is established and the request waits for the response. */
  get connected(): boolean {
    return this.#phase === 'answer';
  }

  follow(request: ClientRequest): void {
    const secure = this.#url.protocol === 'https:';
    const isAddress = isIP(this.#url.hostname.replace(/^\[(.*)\]$/, '$1')) !== 0;
    this.#phase = this.#throughProxy ? 'proxy' : isAddress ? 'tcp' : 'name';
    request.once('socket', (socket) => {
      if (request.reusedSocket) {
        this.#phase = 'answer';
        return;
      }
      // With a tunnel, the TCP connection already exists; with plain HTTP, the connection is to the proxy.
      if (this.#throughProxy && secure) this.#phase = 'tls';
      if (!this.#throughProxy) socket.once('lookup', () => (this.#phase = 'tcp'));
      socket.once('connect', () => (this.#phase = secure ? 'tls' : 'answer'));
      socket.once('secureConnect', () => (this.#phase = 'answer'));
    });
  }

  /** Returns why a request timed out. */
  missing(milliseconds: number): string {
    const within = `within ${seconds(milliseconds)}`;
    switch (this.#phase) {
      case 'credentials':
        return `no result ${within}`;
      case 'proxy':
        return `no connection through the proxy ${within}`;
      case 'name':
        return `the name ${this.#url.hostname} was not resolved ${within}: check the DNS of this node`;
      case 'tcp':
        return `no TCP connection ${within}, and no refusal: packets are dropped or the host is down; check the address, routes and firewalls`;
      case 'tls':
        return `TCP connected, but no TLS handshake ${within}: check which program listens there`;
      case 'answer':
        return `the server received the request, but sent no response ${within}`;
    }
  }

  /** Returns what a request is still waiting for. */
  slow(milliseconds: number): string {
    return this.#phase === 'credentials'
      ? `still no credentials after ${seconds(milliseconds)}: check the exec plugin of the kubeconfig`
      : `no response after ${seconds(milliseconds)}`;
  }
}
