import { Socket } from 'node:net';

/** When the kernel begins to probe a silent peer. */
const KEEP_ALIVE_MS = 60_000;

/** Options that the kernel gets of each socket. */
export const TCP_OPTIONS = {
  allowHalfOpen: true,
  noDelay: true,
  keepAlive: true,
  keepAliveInitialDelay: KEEP_ALIVE_MS,
} as const;

/** With half of it, a GiB takes a third more processor time. */
export const CHUNK_BYTES = 32 * 1024;
/** What all sockets read into: each chunk is copied at once. */
const buffer = new Uint8Array(CHUNK_BYTES);

/**
 * A TCP socket that passes on what it reads, and reads no more until that is written: it holds one chunk at most, where
 * streams that are piped hold several of 64 KiB.
 */
export class RelaySocket extends Socket {
  #to: Socket | undefined;
  #isWaiting = false;

  /** @param accepted a connection of a server, which is paused and is not used any more; by default, the socket is not connected */
  constructor(accepted?: Socket) {
    const options: object = {
      ...TCP_OPTIONS,
      handle: accepted === undefined ? undefined : takeHandle(accepted),
      manualStart: true,
      onread: { buffer, callback: (length: number): boolean => this.#received(length) },
    };
    super(options);
  }

  /** Begins to read, and passes everything on, also the end. */
  passTo(to: Socket): void {
    this.#to = to;
    this.once('end', () => to.end());
    this.resume();
  }

  /** Returns whether to go on reading. */
  #received(length: number): boolean {
    const to = this.#to;
    if (to === undefined) return false;
    to.write(buffer.slice(0, length), this.#written);
    this.#isWaiting = to.writableLength > 0;
    return !this.#isWaiting;
  }

  readonly #written = (): void => {
    // Also called, later, for what was written at once.
    if (!this.#isWaiting || (this.#to?.writableLength ?? 0) > 0) return;
    this.#isWaiting = false;
    if (!this.destroyed) this.resume();
  };
}

/** Node.js has no public name for what a socket has of the kernel. Only a socket that is constructed takes a buffer. */
function takeHandle(socket: Socket & { _handle?: object | null }): object | undefined {
  const handle = socket._handle ?? undefined;
  socket._handle = null;
  return handle;
}
