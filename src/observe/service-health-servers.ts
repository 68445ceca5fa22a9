import { errorText } from '../base/error-text.ts';
import { type IpAddress, formatIp } from '../base/ip.ts';
import type { Port } from '../base/port.ts';
import { type HttpHandler, HttpListener, answer } from './http-listener.ts';

/** A Service with a health check port on this node (spec.healthCheckNodePort). */
export interface ServiceHealthCheck {
  readonly namespace: string;
  readonly name: string;
  readonly port: Port;
  /** Distinct addresses of ready endpoints on this node, over both families. */
  readonly localEndpoints: number;
}

/** Addresses that the health checks listen on: all of the host, or a list. */
export type ListenOn = 'all' | readonly IpAddress[];

export interface ServiceHealthServersOptions {
  /** Returns whether the proxy is healthy, as /livez does. */
  readonly proxyHealthy: () => boolean;
  /** A port could not be bound. It is retried at each sync, and reported again only if the reason changes. */
  readonly onBindFailure: (check: ServiceHealthCheck, address: string, error: Error) => void;
}

function body({ namespace, name, localEndpoints }: ServiceHealthCheck, serviceProxyHealthy: boolean): string {
  return `${JSON.stringify({ service: { namespace, name }, localEndpoints, serviceProxyHealthy }, undefined, '\t')}\n`;
}

/** The health checks of Services with externalTrafficPolicy Local: one listener for each port and address. */
export class ServiceHealthServers {
  readonly #options: ServiceHealthServersOptions;
  /** By port and address. */
  readonly #open = new Map<string, HttpListener>();
  /** Reported failures, so that not every sync reports them again. */
  #reported = new Map<string, string>();
  #checks: ReadonlyMap<Port, ServiceHealthCheck> = new Map();
  #work: Promise<void> = Promise.resolve();
  #closed = false;

  constructor(options: ServiceHealthServersOptions) {
    this.#options = options;
  }

  /** Applies new counts at once. Resolves when obsolete ports are closed and binding new ones was attempted. */
  sync(checks: readonly ServiceHealthCheck[], listenOn: ListenOn): Promise<void> {
    const byPort = new Map<Port, ServiceHealthCheck>();
    const losers: ServiceHealthCheck[] = [];
    for (const check of checks) {
      if (byPort.has(check.port)) losers.push(check);
      else byPort.set(check.port, check);
    }
    this.#checks = byPort;
    this.#work = this.#work.then(() => this.#reconcile(byPort, listenOn, losers));
    return this.#work;
  }

  async close(): Promise<void> {
    this.#closed = true;
    await this.#work;
    await Promise.all(Array.from(this.#open.values(), (listener) => listener.close()));
    this.#open.clear();
  }

  async #reconcile(
    checks: ReadonlyMap<Port, ServiceHealthCheck>,
    listenOn: ListenOn,
    losers: readonly ServiceHealthCheck[],
  ): Promise<void> {
    if (this.#closed) return;
    const addresses: readonly (IpAddress | undefined)[] = listenOn === 'all' ? [undefined] : listenOn;
    const wanted = new Map<string, { check: ServiceHealthCheck; address: IpAddress | undefined }>();
    for (const check of checks.values()) {
      for (const address of addresses) wanted.set(socketName(check.port, address), { check, address });
    }
    await this.#closeUnwanted(wanted);
    const failed = new Map<string, string>();
    for (const [name, { check, address }] of wanted) {
      if (this.#open.has(name)) continue;
      const error = await this.#listen(name, check.port, address);
      if (error !== undefined) this.#report(failed, check, address === undefined ? '*' : formatIp(address), error);
    }
    for (const check of losers) {
      const owner = checks.get(check.port);
      this.#report(failed, check, '*', new Error(`port ${check.port} belongs to ${owner?.namespace}/${owner?.name}`));
    }
    this.#reported = failed;
  }

  #report(failed: Map<string, string>, check: ServiceHealthCheck, address: string, error: Error): void {
    const key = `${check.namespace}/${check.name} ${check.port} ${address}`;
    failed.set(key, error.message);
    if (this.#reported.get(key) !== error.message) this.#options.onBindFailure(check, address, error);
  }

  async #closeUnwanted(wanted: ReadonlyMap<string, unknown>): Promise<void> {
    const closing: Promise<void>[] = [];
    for (const [name, listener] of this.#open) {
      if (wanted.has(name)) continue;
      this.#open.delete(name);
      closing.push(listener.close());
    }
    await Promise.all(closing);
  }

  /** Returns the error if binding failed. */
  async #listen(name: string, port: Port, address: IpAddress | undefined): Promise<Error | undefined> {
    try {
      const where = address === undefined ? { port } : { address, port };
      this.#open.set(name, await HttpListener.open(where, this.#handler(port)));
      return undefined;
    } catch (error) {
      return new Error(errorText(error), { cause: error });
    }
  }

  #handler(port: Port): HttpHandler {
    return (_request, response) => {
      const check = this.#checks.get(port);
      const healthy = this.#options.proxyHealthy();
      const text = check === undefined ? '{}\n' : body(check, healthy);
      const status = check !== undefined && check.localEndpoints > 0 && healthy ? 200 : 503;
      answer(response, status, 'application/json', text, {
        'X-Load-Balancing-Endpoint-Weight': String(check?.localEndpoints ?? 0),
      });
    };
  }
}

function socketName(port: Port, address: IpAddress | undefined): string {
  return `${port} ${address === undefined ? '*' : formatIp(address)}`;
}
