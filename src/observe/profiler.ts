import type { Readable } from 'node:stream';

const LONGEST_SECONDS = 60;

/** Heap snapshots and CPU profiles of this process, in the formats that Chrome's DevTools open. */
export class Profiler {
  #busy = false;

  /** Returns a snapshot of the whole heap, secrets included. */
  async heapSnapshot(): Promise<Readable> {
    const { getHeapSnapshot } = await import('node:v8');
    return getHeapSnapshot();
  }

  /** Returns a profile of 1 to 60 seconds as JSON; undefined while another one is being taken. */
  async cpuProfile(seconds: number): Promise<string | undefined> {
    if (this.#busy) return undefined;
    this.#busy = true;
    const { Session } = await import('node:inspector/promises');
    const session = new Session();
    session.connect();
    try {
      await session.post('Profiler.enable');
      await session.post('Profiler.start');
      const { promise, resolve } = Promise.withResolvers<void>();
      setTimeout(resolve, Math.min(Math.max(seconds, 1), LONGEST_SECONDS) * 1000).unref();
      await promise;
      const { profile } = await session.post('Profiler.stop');
      return JSON.stringify(profile);
    } finally {
      session.disconnect();
      this.#busy = false;
    }
  }
}
