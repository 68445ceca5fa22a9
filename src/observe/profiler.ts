import { Session } from 'node:inspector/promises';
import { setTimeout } from 'node:timers/promises';

const LONGEST_SECONDS = 60;

/** CPU profiles of this process, in the format that Chrome's DevTools open. */
export class Profiler {
  #busy = false;

  /** Returns a profile of 1 to 60 seconds as JSON; undefined while another one is being taken. */
  async cpuProfile(seconds: number): Promise<string | undefined> {
    if (this.#busy) return undefined;
    this.#busy = true;
    const session = new Session();
    session.connect();
    try {
      await session.post('Profiler.enable');
      await session.post('Profiler.start');
      await setTimeout(Math.min(Math.max(seconds, 1), LONGEST_SECONDS) * 1000, undefined, { ref: false });
      const { profile } = await session.post('Profiler.stop');
      return JSON.stringify(profile);
    } finally {
      session.disconnect();
      this.#busy = false;
    }
  }
}
