import { type IpFamily, familyOf } from '../base/ip.ts';
import { errorCode } from '../base/text/error-text.ts';
import { setTimer } from '../base/timer.ts';
import { type VirtualServerId, type VirtualServerKey, virtualServerKey } from '../state/virtual-server.ts';
import type { RefusedListener } from './engine-report.ts';
import type { Listener } from './engine-update.ts';
import type { OpenListener } from './open-listener.ts';
import { portOwner } from './port-owner.ts';

/** When a listener that was refused is tried again. */
const RETRY_MS = 2_000;

export interface ListenerTableOptions {
  /** Listens; rejects with the system's error. */
  readonly open: (slot: ListenerSlot) => Promise<OpenListener>;
  /** Called when a listener is refused, and when the reason changes. */
  readonly onRefused: (refused: RefusedListener) => void;
}

/** A wanted listener. Its key may change while it listens. */
export interface ListenerSlot {
  listener: Listener;
}

interface ListenerState extends ListenerSlot {
  open: OpenListener | undefined;
  refused: RefusedListener | undefined;
  cancelRetry: () => void;
  ended: boolean;
}

/** The wanted listeners; one that was refused is tried again. */
export class ListenerTable {
  readonly #options: ListenerTableOptions;
  readonly #states = new Map<VirtualServerKey, ListenerState>();

  constructor(options: ListenerTableOptions) {
    this.#options = options;
  }

  /** Open ports, by the family of their address. */
  get listening(): Record<IpFamily, number> {
    const counts = { 4: 0, 6: 0 };
    for (const { listener, open } of this.#states.values()) {
      if (open !== undefined) counts[familyOf(listener.address)] += 1;
    }
    return counts;
  }

  get refused(): RefusedListener[] {
    return Array.from(this.#states.values()).flatMap(({ refused }) => (refused === undefined ? [] : [refused]));
  }

  listensAt(id: VirtualServerId): boolean {
    return this.#states.get(virtualServerKey(id))?.open !== undefined;
  }

  /** Resolves when it listens or was refused. */
  async set(listener: Listener): Promise<void> {
    const key = virtualServerKey(listener);
    const known = this.#states.get(key);
    if (known !== undefined && known.listener.reusePort === listener.reusePort) {
      known.listener = listener;
      return;
    }
    this.end(listener);
    const state: ListenerState = {
      listener,
      open: undefined,
      refused: undefined,
      cancelRetry: () => undefined,
      ended: false,
    };
    this.#states.set(key, state);
    await this.#open(state);
  }

  /** Frees the port at once. */
  end(id: VirtualServerId): void {
    const key = virtualServerKey(id);
    const state = this.#states.get(key);
    if (state === undefined) return;
    this.#states.delete(key);
    state.ended = true;
    state.cancelRetry();
    state.open?.close();
  }

  /** Ends all but these. */
  keepOnly(listeners: readonly VirtualServerId[]): void {
    const kept = new Set(listeners.map(virtualServerKey));
    for (const [key, { listener }] of this.#states) if (!kept.has(key)) this.end(listener);
  }

  async #open(state: ListenerState): Promise<void> {
    try {
      const open = await this.#options.open(state);
      state.refused = undefined;
      if (state.ended) open.close();
      else state.open = open;
    } catch (error) {
      await this.#refused(state, errorCode(error) ?? 'unknown');
    }
  }

  async #refused(state: ListenerState, code: string): Promise<void> {
    const { address, port, protocol } = state.listener;
    const id = { address, port, protocol };
    const owner = code === 'EADDRINUSE' ? await portOwner(id) : undefined;
    if (state.ended) return;
    const before = state.refused;
    state.refused = { ...id, code, ...(owner === undefined ? {} : { owner }) };
    if (code !== 'EPROTONOSUPPORT') state.cancelRetry = setTimer(() => void this.#open(state), RETRY_MS);
    if (before?.code !== code || before.owner !== owner) this.#options.onRefused(state.refused);
  }
}
