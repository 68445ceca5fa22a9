import type { EnginePort } from '../../src/kernel/userspace/engine-port.ts';
import { engineKey } from '../../src/kernel/userspace/engine-state.ts';
import type { VirtualServerId } from '../../src/state/virtual-server.ts';
import type { EngineTraffic, PortTraffic, RefusedListener } from '../../src/userspace/engine-report.ts';
import type { EngineUpdate, ForwardedPort } from '../../src/userspace/engine-update.ts';
import { WantedState } from '../../src/userspace/wanted-state.ts';
import { formatHostPort } from '../../src/base/ip.ts';

/** An engine in memory: it has what it was given, and forwards nothing. */
export class FakeEngine implements EnginePort {
  readonly #wanted = new WantedState();
  /** "TCP 20000": ports that other programs have. */
  readonly taken = new Set<string>();
  /** What it shall say that it has forwarded. */
  readonly forwarded = new Map<string, PortTraffic>();
  isClosed = false;

  apply(update: EngineUpdate): Promise<void> {
    this.#wanted.apply(update);
    return Promise.resolve();
  }

  report(): Promise<{ readonly refusedListeners: readonly RefusedListener[] }> {
    const { listeners = [] } = this.#wanted.update;
    const refused = listeners.filter(({ protocol, port }) => this.taken.has(`${protocol} ${port}`));
    return Promise.resolve({ refusedListeners: refused.map((each) => ({ ...each, code: 'EADDRINUSE' })) });
  }

  traffic(keys?: readonly string[]): Promise<EngineTraffic> {
    return Promise.resolve(new Map([...this.forwarded].filter(([key]) => keys?.includes(key) !== false)));
  }

  stopListening(): Promise<void> {
    const { listeners = [] } = this.#wanted.update;
    return this.apply({ whole: false, endedListeners: listeners });
  }

  drain(): Promise<void> {
    return Promise.resolve();
  }

  close(): Promise<void> {
    this.isClosed = true;
    return Promise.resolve();
  }

  /** What it has, as text: "TCP 10.96.0.1:80 -> 10.244.0.1:8080, 10.244.0.2:8080", without endpoints of weight 0. */
  get ports(): readonly string[] {
    return (this.#wanted.update.ports ?? []).map(({ key, endpoints }) => {
      const texts = endpoints
        .filter(({ weight }) => weight > 0)
        .map(({ address, port }) => formatHostPort(address, port));
      return `${key} -> ${texts.join(', ')}`;
    });
  }

  /** Returns what it forwards connections to a virtual server to. */
  portOf(id: VirtualServerId): ForwardedPort | undefined {
    return this.#wanted.update.ports?.find(({ key }) => key === engineKey(id));
  }

  get update(): EngineUpdate {
    return this.#wanted.update;
  }
}
