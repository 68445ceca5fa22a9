import type { Socket } from 'node:net';
import { openFilesLimit } from './process-metrics.ts';

/** How many connections may be open at once. */
export interface ConnectionLimits {
  /** Maximum over all listeners. */
  readonly total: number;
  readonly perListener: number;
}

/** File descriptors reserved for netlink and API sockets, pipes to programs and files. */
const RESERVED_FILES = 128;
const MOST_IN_TOTAL = 1_024;
const FEWEST_IN_TOTAL = 16;
const MOST_PER_LISTENER = 256;

/** @param openFiles the process's limit of file descriptors; undefined if unlimited or unknown */
export function connectionLimits(openFiles: number | undefined): ConnectionLimits {
  const half = Math.floor(((openFiles ?? Infinity) - RESERVED_FILES) / 2);
  const total = Math.max(FEWEST_IN_TOTAL, Math.min(MOST_IN_TOTAL, half));
  return { total, perListener: Math.min(MOST_PER_LISTENER, Math.floor(total / 2)) };
}

/**
 * Returns how many ports may be open for health checks of Services: their number is up to the users of the cluster, and
 * must leave files for everything else.
 *
 * @param openFiles the process's limit of file descriptors; undefined if unlimited or unknown
 */
export function mostListeners(openFiles: number | undefined): number {
  return Math.max(FEWEST_IN_TOTAL, (openFiles ?? Infinity) - RESERVED_FILES - connectionLimits(openFiles).total);
}

/**
 * The connections of all listeners of a process, which share its file descriptors. Always accepts new connections.
 * Above the limit, the listener with the most connections closes the one that has waited longest for a complete
 * request, or else the one with the longest-running response. Responses use at most 3/4 of a listener's connections.
 */
export class Connections {
  readonly #listeners = new Set<ListenerConnections>();
  #limits: ConnectionLimits | undefined;

  /** @param limits by default half of the file descriptors that are not reserved */
  constructor(limits?: ConnectionLimits) {
    this.#limits = limits;
  }

  get limits(): ConnectionLimits {
    return (this.#limits ??= connectionLimits(openFilesLimit()));
  }

  listener(): ListenerConnections {
    const { perListener } = this.limits;
    const made = new ListenerConnections(perListener, (newest) => this.#makeRoom(made, newest));
    return made;
  }

  #makeRoom(listener: ListenerConnections, newest: Socket): void {
    const { total, perListener } = this.limits;
    this.#listeners.add(listener);
    if (listener.size > perListener) listener.dropOldest(newest);
    let sum = 0;
    let largest = listener;
    for (const each of this.#listeners) {
      if (each.size === 0) this.#listeners.delete(each);
      sum += each.size;
      if (each.size > largest.size) largest = each;
    }
    if (sum > total) largest.dropOldest(newest);
  }
}

/** The connections of one listener, in the order in which they began to wait or to be answered. */
export class ListenerConnections {
  readonly #waiting = new Set<Socket>();
  readonly #answering = new Set<Socket>();
  readonly #mostAnswering: number;
  readonly #onAccepted: (socket: Socket) => void;

  constructor(most: number, onAccepted: (socket: Socket) => void) {
    this.#mostAnswering = Math.floor((most * 3) / 4);
    this.#onAccepted = onAccepted;
  }

  get size(): number {
    return this.#waiting.size + this.#answering.size;
  }

  accepted(socket: Socket): void {
    this.#waiting.add(socket);
    socket.once('close', () => this.#forget(socket));
    this.#onAccepted(socket);
  }

  /** Must be called when a request is complete. Returns false while an earlier response is being sent (pipelining). */
  answering(socket: Socket): boolean {
    if (!this.#waiting.delete(socket)) return false;
    this.#answering.add(socket);
    if (this.#answering.size > this.#mostAnswering) this.#drop(this.#answering, socket);
    return true;
  }

  answered(socket: Socket): void {
    if (this.#answering.delete(socket)) this.#waiting.add(socket);
  }

  /** @param newest the connection that needs room; it is not closed itself */
  dropOldest(newest: Socket): void {
    if (!this.#drop(this.#waiting, newest)) this.#drop(this.#answering, newest);
  }

  #drop(from: Set<Socket>, newest: Socket): boolean {
    for (const socket of from) {
      if (socket === newest) continue;
      this.#forget(socket);
      socket.destroy();
      return true;
    }
    return false;
  }

  #forget(socket: Socket): void {
    this.#waiting.delete(socket);
    this.#answering.delete(socket);
  }
}
