import { errorText } from '../base/text/error-text.ts';
import { IP_FAMILIES, type IpAddress, type IpFamily } from '../base/ip.ts';
import type { Port } from '../base/port.ts';
import { Yielder } from '../base/yielder.ts';
import { mostListeners } from './connections.ts';
import {
  type HttpHandler,
  HttpListener,
  type ListenAddress,
  answer,
  bindAdvice,
  formatListenAddress,
} from './http-listener.ts';
import { openFilesLimit } from './process-metrics.ts';

/** A Service with a health check port on this node (spec.healthCheckNodePort). */
export interface ServiceHealthCheck {
  readonly namespace: string;
  readonly name: string;
  readonly port: Port;
  /** The number of distinct addresses of ready endpoints on this node, for each IP family of the Service. */
  readonly localEndpoints: Readonly<Partial<Record<IpFamily, number>>>;
}

/** Addresses that the health checks of each IP family listen on: all of the host, or a list. */
export type ListenOn = Readonly<Partial<Record<IpFamily, 'all' | readonly IpAddress[]>>>;

export interface ServiceHealthServersOptions {
  /** Returns whether the proxy is healthy, as /livez does. */
  readonly proxyHealthy: () => boolean;
  /**
   * Called when a port cannot be bound. Binding is retried at each sync, but reported again only if the reason changes.
   * `hint` is the effect and the remedy, to append to the reason.
   */
  readonly onBindFailure: (check: ServiceHealthCheck, address: string, reason: string, hint: string) => void;
  /** How many listeners may be open at once; by default, as the limit of file descriptors allows. */
  readonly mostListeners?: number;
}

/** The effect of a failure to bind. */
const EFFECT = '. Load balancers cannot check this node for the service';

function body({ namespace, name }: ServiceHealthCheck, localEndpoints: number, serviceProxyHealthy: boolean): string {
  return `${JSON.stringify({ service: { namespace, name }, localEndpoints, serviceProxyHealthy }, undefined, '\t')}\n`;
}

/** Returns where the health check of one Service listens. A Service of one family has no listener of the other one. */
function placesOf({ port, localEndpoints }: ServiceHealthCheck, listenOn: ListenOn): [IpFamily, ListenAddress][] {
  return IP_FAMILIES.filter((family) => localEndpoints[family] !== undefined).flatMap((family) => {
    const addresses = listenOn[family] ?? [];
    const places = addresses === 'all' ? [{ family, port }] : addresses.map((address) => ({ address, port }));
    return places.map((where): [IpFamily, ListenAddress] => [family, where]);
  });
}

interface WantedListener {
  readonly check: ServiceHealthCheck;
  readonly family: IpFamily;
  readonly where: ListenAddress;
}

/**
 * The health checks of Services with externalTrafficPolicy Local: one listener for each port and address. As in
 * kube-proxy, each listener answers with the number of endpoints of its own IP family.
 */
export class ServiceHealthServers {
  readonly #options: ServiceHealthServersOptions;
  readonly #most: number;
  /** The listeners by address and port. */
  readonly #open = new Map<string, HttpListener>();
  /** Reported failures, so that not every sync reports them again. */
  #reported = new Map<string, string>();
  #checks: ReadonlyMap<Port, ServiceHealthCheck> = new Map();
  #work: Promise<void> = Promise.resolve();
  #closed = false;

  constructor(options: ServiceHealthServersOptions) {
    this.#options = options;
    this.#most = options.mostListeners ?? mostListeners(openFilesLimit());
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
    const wanted = new Map<string, WantedListener>();
    for (const check of checks.values()) {
      for (const [family, where] of placesOf(check, listenOn)) {
        wanted.set(formatListenAddress(where), { check, family, where });
      }
    }
    await this.#closeUnwanted(wanted);
    const failed = new Map<string, string>();
    const report = (check: ServiceHealthCheck, address: string, reason: string, advice: string): void => {
      const key = `${check.namespace}/${check.name} ${address}`;
      failed.set(key, reason);
      if (this.#reported.get(key) !== reason) this.#options.onBindFailure(check, address, reason, `${EFFECT}${advice}`);
    };
    // Starting a listener does not yield: thousands of ports would block the event loop.
    const yielder = new Yielder();
    for (const [address, { check, family, where }] of wanted) {
      if (this.#open.has(address)) continue;
      await yielder.yieldIfDue();
      if (this.#open.size >= this.#most) {
        const advice = '. Raise the limit of open files of this process, or select fewer addresses (nodePortAddresses)';
        report(check, address, `${this.#most} health check ports are open, as many as may be`, advice);
        continue;
      }
      try {
        this.#open.set(address, await HttpListener.open(where, this.#handler(check.port, family)));
      } catch (error) {
        report(check, address, errorText(error), bindAdvice(error, check.port));
      }
    }
    for (const check of losers) {
      const owner = checks.get(check.port);
      const reason = `port ${check.port} is already used by the health check of service ${owner?.namespace}/${owner?.name}`;
      report(check, formatListenAddress(check), reason, '. Change healthCheckNodePort in one of the two Services');
    }
    this.#reported = failed;
  }

  async #closeUnwanted(wanted: ReadonlyMap<string, unknown>): Promise<void> {
    const unwanted = [...this.#open].filter(([address]) => !wanted.has(address));
    const yielder = new Yielder();
    for (const [address, listener] of unwanted) {
      this.#open.delete(address);
      await listener.close();
      await yielder.yieldIfDue();
    }
  }

  #handler(port: Port, family: IpFamily): HttpHandler {
    return (_request, response) => {
      const check = this.#checks.get(port);
      const localEndpoints = check?.localEndpoints[family] ?? 0;
      const healthy = this.#options.proxyHealthy();
      const text = check === undefined ? '{}\n' : body(check, localEndpoints, healthy);
      answer(response, localEndpoints > 0 && healthy ? 200 : 503, 'application/json', text, {
        'X-Load-Balancing-Endpoint-Weight': String(localEndpoints),
      });
    };
  }
}
